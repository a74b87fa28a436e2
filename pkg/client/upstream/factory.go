package upstream

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// factory is client-go's factory of informers, except that the informers of built-in kinds list and watch through a Client.
// Every group gets this factory instead of the embedded one.
type factory struct {
	informers.SharedInformerFactory
	client  client.Client
	observe func(resource schema.GroupVersionResource, old, new any) // may be nil
}

func newFactory(c client.Client, set kubernetes.Interface, observe func(resource schema.GroupVersionResource, old, new any)) informers.SharedInformerFactory {
	return &factory{informers.NewSharedInformerFactory(set, 0), c, observe}
}

// InformerFor returns the factory's informer for the type of obj.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return f.SharedInformerFactory.InformerFor(obj, newFunc)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return f.SharedInformerFactory.InformerFor(obj, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		informer := cache.NewSharedIndexInformer(listWatch(f.client, plural, obj), obj, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		if f.observe != nil {
			_, _ = informer.AddEventHandler(f.observer(plural)) // fails only for an informer that has ended
		}
		return informer
	})
}

func (f *factory) observer(resource schema.GroupVersionResource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, inInitialList bool) {
			if !inInitialList {
				f.observe(resource, nil, obj)
			}
		},
		UpdateFunc: func(old, obj any) { f.observe(resource, old, obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			f.observe(resource, obj, nil)
		},
	}
}

// The groups with this factory instead of the embedded one.

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Apps() apps.Interface { return apps.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Batch() batch.Interface { return batch.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Certificates() certificates.Interface {
	return certificates.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Coordination() coordination.Interface {
	return coordination.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Core() core.Interface           { return core.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Discovery() discovery.Interface { return discovery.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Events() events.Interface       { return events.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Extensions() extensions.Interface {
	return extensions.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Networking() networking.Interface {
	return networking.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Node() node.Interface         { return node.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Policy() policy.Interface     { return policy.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Rbac() rbac.Interface         { return rbac.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Resource() resource.Interface { return resource.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, metav1.NamespaceAll, nil)
}
func (f *factory) Storage() storage.Interface { return storage.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, metav1.NamespaceAll, nil)
}

// listWatch lists and watches a resource through c. example has the type that its objects have.
func listWatch(c client.Client, resource schema.GroupVersionResource, example runtime.Object) *cache.ListWatch {
	t := client.Target{Resource: resource}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := c.List(ctx, t, opts)
			if err != nil {
				return nil, err
			}
			return sharing(list), nil
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return newStream(ctx, c, t, opts, example), nil
		},
	}
}

// sharing returns a list whose items are those of list, not copies.
func sharing(list client.List) runtime.Object {
	out := &metav1.List{ListMeta: metav1.ListMeta{
		ResourceVersion: list.ResourceVersion, Continue: list.Continue, RemainingItemCount: list.Remaining,
	}}
	for _, obj := range list.Items {
		out.Items = append(out.Items, runtime.RawExtension{Object: obj})
	}
	return out
}

// stream is a watch of the Client in client-go's form.
type stream struct {
	events chan watch.Event
	stop   context.CancelFunc
}

func newStream(ctx context.Context, c client.Client, t client.Target, opts metav1.ListOptions, example runtime.Object) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{events: make(chan watch.Event), stop: cancel}
	go func() {
		defer close(s.events)
		defer cancel()
		for ev, err := range c.Watch(ctx, t, opts) {
			select {
			case s.events <- convert(ev, err, example):
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// ResultChan and Stop implement watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }
func (s *stream) Stop()                          { s.stop() }

// convert returns an event in client-go's form. An error becomes an event with its status, and a bookmark's object gets the
// resource's type, which client-go requires.
func convert(ev client.Event, err error, example runtime.Object) watch.Event {
	if err != nil {
		status := client.StatusOf(err)
		return watch.Event{Type: watch.Error, Object: &status}
	}
	if ev.Type != watch.Bookmark || reflect.TypeOf(ev.Object) == reflect.TypeOf(example) {
		return watch.Event{Type: ev.Type, Object: ev.Object}
	}
	typed := reflect.New(reflect.TypeOf(example).Elem()).Interface().(objects.Object)
	typed.SetResourceVersion(ev.Object.GetResourceVersion())
	typed.SetAnnotations(ev.Object.GetAnnotations())
	return watch.Event{Type: ev.Type, Object: typed}
}
