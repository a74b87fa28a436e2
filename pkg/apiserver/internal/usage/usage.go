// Package usage serves the group metrics.k8s.io: what pods and nodes use now. Each read requests it from the kubelets of the nodes in question, so
// that a cluster without readers measures nothing. A pod or node that its kubelet does not report is left out, as in Kubernetes.
package usage

import (
	"context"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

// Config is what the backends need.
type Config struct {
	Reader func() stage.Reader
	Clock  clock.Clock
	// Fetch returns the reports of the kubelets of nodes. Those that can't be reached are left out.
	Fetch func(ctx context.Context, nodes []string, path string, query url.Values) []metrics.Report
}

// described is the part of a resource that differs between pods and nodes.
type described struct {
	Config
	resource schema.GroupResource // of the objects that are measured
	// measure returns the metrics of objects by their keys.
	measure func(ctx context.Context, c Config, namespace string, of []objects.Object) map[objects.Key]objects.Object
	counts  func(objects.Object) bool // reports whether an object can have metrics
}

// Pods returns the backend of the metrics of pods.
func Pods(c Config) verbs.Backend {
	return &described{c, schema.GroupResource{Resource: "pods"}, measurePods, func(obj objects.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning
	}}
}

// Nodes returns the backend of the metrics of nodes.
func Nodes(c Config) verbs.Backend {
	return &described{c, schema.GroupResource{Resource: "nodes"}, measureNodes, func(objects.Object) bool { return true }}
}

func measurePods(ctx context.Context, c Config, namespace string, of []objects.Object) map[objects.Key]objects.Object {
	var nodes []string
	for _, obj := range of {
		nodes = append(nodes, obj.(*corev1.Pod).Spec.NodeName)
	}
	slices.Sort(nodes)
	query := url.Values{}
	if namespace != "" {
		query.Set("namespace", namespace)
	}
	out := map[objects.Key]objects.Object{}
	for _, r := range c.Fetch(ctx, slices.Compact(nodes), metrics.ReportedPods, query) {
		for i := range r.Pods {
			out[keyOf(&r.Pods[i])] = &r.Pods[i]
		}
	}
	return out
}

func measureNodes(ctx context.Context, c Config, _ string, of []objects.Object) map[objects.Key]objects.Object {
	var nodes []string
	for _, obj := range of {
		nodes = append(nodes, obj.GetName())
	}
	out := map[objects.Key]objects.Object{}
	for _, r := range c.Fetch(ctx, nodes, metrics.ReportedNodes, nil) {
		for i := range r.Nodes {
			out[keyOf(&r.Nodes[i])] = &r.Nodes[i]
		}
	}
	return out
}

func keyOf(obj objects.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Get returns the metrics of one object.
func (d *described) Get(ctx context.Context, req *verbs.Request, _ *metav1.GetOptions) (*cache.Item, error) {
	notFound := apierrors.NewNotFound(req.Resource.Names.GR(), req.Name)
	obj, err := d.Reader().Get(ctx, d.resource, objects.Key{Namespace: req.Namespace, Name: req.Name})
	if apierrors.IsNotFound(err) {
		return nil, notFound
	}
	if err != nil {
		return nil, err
	}
	if items := d.items(ctx, req.Namespace, []objects.Object{obj}); len(items) > 0 {
		return items[0], nil
	}
	return nil, notFound
}

// List returns the metrics of the objects that the selectors match, in the order of their names.
func (d *described) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	selectors, err := verbs.ParseSelectors(opts)
	if err != nil {
		return verbs.Listing{}, err
	}
	for _, r := range selectors.Fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return verbs.Listing{}, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	all, err := d.Reader().List(ctx, d.resource, req.Namespace)
	if err != nil {
		return verbs.Listing{}, err
	}
	var of []objects.Object
	for _, obj := range all {
		if selectors.Match(obj.GetNamespace(), obj.GetName(), obj.GetLabels()) {
			of = append(of, obj)
		}
	}
	return verbs.Listing{Items: d.items(ctx, req.Namespace, of)}, nil
}

// items returns the metrics of objects, without those that have none.
func (d *described) items(ctx context.Context, namespace string, of []objects.Object) []*cache.Item {
	items := []*cache.Item{}
	of = slices.DeleteFunc(slices.Clone(of), func(obj objects.Object) bool { return !d.counts(obj) })
	if len(of) == 0 {
		return items
	}
	slices.SortFunc(of, func(a, b objects.Object) int { return strings.Compare(keyOf(a).String(), keyOf(b).String()) })
	measured := d.measure(ctx, d.Config, namespace, of)
	now := metav1.NewTime(d.Clock.Now()).Rfc3339Copy()
	for _, obj := range of {
		key := keyOf(obj)
		m := measured[key]
		if m == nil {
			continue
		}
		m.SetCreationTimestamp(now)
		m.SetLabels(obj.GetLabels())
		items = append(items, cache.NewItem(key, 0, m))
	}
	return items
}

var (
	_ objects.Object = (*v1beta1.PodMetrics)(nil)
	_ objects.Object = (*v1beta1.NodeMetrics)(nil)
)
