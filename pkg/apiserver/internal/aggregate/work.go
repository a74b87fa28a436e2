package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

const (
	checkEvery = 30 * time.Second
	firstRetry = 100 * time.Millisecond // doubled after each failure
	podsEvery  = 2 * time.Second        // interval for Services without EndpointSlices, whose pods are not watched
	workers    = 4                      // each may wait for a server that does not respond
)

// Run checks the extensions until ctx ends. While there are none it does nothing.
func (x *Extensions) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.wake:
		}
		t, err := x.table(ctx)
		if err != nil {
			return err
		}
		if len(t.byGV) > 0 {
			x.work(ctx)
		}
	}
}

// errNone ends work.
var errNone = errors.New("there are no extensions any more")

// work runs the loop that checks extensions after every change of an APIService, Service or EndpointSlice, until there are no
// extensions.
func (x *Extensions) work(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	caches := client.NewCaches(x.config.Client(), x.config.Clock)
	loop := reconcile.Loop{
		Name: "apiservices", Workers: workers,
		Sources: []reconcile.Source{
			reconcile.Watch(client.CacheOf[*apiregistrationv1.APIService](caches, apiregistrationv1.SchemeGroupVersion.WithResource(apiServices.Resource))),
			reconcile.Map(client.CacheOf[*corev1.Service](caches, client.Services), func(c client.Change[*corev1.Service]) []objects.Key {
				return x.apiServicesOf(c.Key())
			}),
			reconcile.Map(client.CacheOf[*discoveryv1.EndpointSlice](caches, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")), x.apiServicesOfSlice),
		},
		Reconcile: func(ctx context.Context, key objects.Key) (time.Duration, error) {
			after, err := x.reconcile(ctx, key.Name)
			if errors.Is(err, errNone) {
				stop()
				return 0, nil
			}
			return after, err
		},
	}
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		_ = caches.Run(ctx) // returns only when ctx ends
	}()
	_ = loop.Run(ctx, clock.Machine(x.config.Clock)) // returns only when ctx ends
	<-filled
	x.notify() // for an extension that was created meanwhile
}

// apiServicesOfSlice returns the APIServices whose Service an EndpointSlice belongs to.
func (x *Extensions) apiServicesOfSlice(c client.Change[*discoveryv1.EndpointSlice]) []objects.Key {
	slice := c.New
	if c.Deleted() {
		slice = c.Old
	}
	return x.apiServicesOf(objects.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]})
}

// apiServicesOf returns the APIServices that name a Service.
func (x *Extensions) apiServicesOf(service objects.Key) []objects.Key {
	var out []objects.Key
	if t := x.now.Load(); t != nil {
		for _, e := range t.byGV {
			if e.link.service == service {
				out = append(out, objects.Key{Name: e.service.Name})
			}
		}
	}
	return out
}

// reconcile updates an extension's condition and discovery document.
func (x *Extensions) reconcile(ctx context.Context, name string) (time.Duration, error) {
	t, err := x.table(ctx)
	if err != nil {
		return 0, err
	}
	if len(t.byGV) == 0 {
		return 0, errNone
	}
	obj, err := x.config.Reader.Get(ctx, apiServices, objects.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s, ok := obj.(*apiregistrationv1.APIService)
	if !ok {
		return 0, fmt.Errorf("the APIService %q is a %T", name, obj)
	}
	e := t.byGV[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}]
	if e == nil || s.Spec.Service == nil {
		return 0, nil
	}
	e = &extension{s, e.link}
	found := e.checkService(ctx)
	if found != nil {
		e.link.recordFailure()
		after := checkEvery
		if found.Reason == endpointsNotFound {
			after = podsEvery
		}
		return after, x.store(ctx, s, found)
	}
	if err := e.try(ctx); err != nil {
		return e.link.recordFailure(), x.store(ctx, s, outcome(no, "FailedDiscoveryCheck", "%v", err))
	}
	after := checkEvery
	if err := e.discover(ctx); err != nil { // before the condition becomes true
		slog.DebugContext(ctx, "fetch discovery of an extension server", "name", name, "err", err)
		after = e.link.recordFailure()
	} else {
		e.link.recordSuccess()
	}
	return after, x.store(ctx, s, outcome(yes, "Passed", "all checks passed"))
}
