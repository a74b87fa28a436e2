package discovery

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// sliceWriter gives k8s.io/endpointslice the part of a clientset that it uses: writes of EndpointSlices. Its requests have
// the context of one reconcile, and each written slice is in the cache at once. Any other request panics.
type sliceWriter struct {
	kubernetes.Interface
	discoveryclient.DiscoveryV1Interface
	discoveryclient.EndpointSliceInterface

	ctx       context.Context //nolint:containedctx // the library's requests have no context of their own
	client    client.Client
	slices    *client.Cache[*discoveryv1.EndpointSlice]
	namespace string
}

func (w sliceWriter) DiscoveryV1() discoveryclient.DiscoveryV1Interface { return w }

func (w sliceWriter) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	w.namespace = namespace
	return w
}

func (w sliceWriter) at(name string) client.Target {
	return client.Target{Resource: endpointSlices, Namespace: w.namespace, Name: name}
}

func (w sliceWriter) Create(_ context.Context, s *discoveryv1.EndpointSlice, o metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	return w.stored(w.client.Create(w.ctx, w.at(""), sorted(s), o))
}

func (w sliceWriter) Update(_ context.Context, s *discoveryv1.EndpointSlice, o metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	return w.stored(w.client.Update(w.ctx, w.at(s.Name), sorted(s), o))
}

// sorted sorts the endpoints of a slice by their addresses: the library gives them no order.
func sorted(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slices.SortFunc(s.Endpoints, func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
	return s
}

func (w sliceWriter) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	_, err := w.client.Delete(w.ctx, w.at(name), o)
	if s, ok := w.slices.Get(objects.Key{Namespace: w.namespace, Name: name}); err == nil && ok {
		w.slices.Drop(s)
	}
	return err
}

func (w sliceWriter) stored(obj runtime.Object, err error) (*discoveryv1.EndpointSlice, error) {
	if err != nil {
		return nil, err
	}
	s := obj.(*discoveryv1.EndpointSlice)
	w.slices.Put(s)
	return s, nil
}

// nodeLister lists the nodes of a cache.
type nodeLister struct{ nodes *client.Cache[*corev1.Node] }

var _ corelisters.NodeLister = nodeLister{}

func (l nodeLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	return l.nodes.List("", selector), nil
}

func (l nodeLister) Get(name string) (*corev1.Node, error) {
	n, ok := l.nodes.Get(objects.Key{Name: name})
	if !ok {
		return nil, apierrors.NewNotFound(client.Nodes.GroupResource(), name)
	}
	return n, nil
}

// eventRecorder records the library's Events in the context of one reconcile. AnnotatedEventf, which the library does not call,
// panics.
type eventRecorder struct {
	record.EventRecorder

	ctx    context.Context //nolint:containedctx // see sliceWriter
	events *client.Recorder
}

func (r eventRecorder) Event(about runtime.Object, eventtype, reason, message string) {
	r.events.Event(r.ctx, about.(objects.Object), eventtype, reason, message)
}

func (r eventRecorder) Eventf(about runtime.Object, eventtype, reason, format string, args ...any) {
	r.Event(about, eventtype, reason, fmt.Sprintf(format, args...))
}
