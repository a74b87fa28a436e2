package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// devices is what the plugins of all profiles share about devices: the claims, slices and classes in the scheduler's caches, and the
// allocations of pods whose binding cycles are under way. It is a framework.SharedDRAManager, and safe for concurrent use. Without a plugin
// that asks for it, it has no caches.
type devices struct {
	asked    atomic.Bool                  // a plugin has the manager
	from     atomic.Pointer[deviceCaches] // nil: the API does not serve the resources, or nothing has asked for it yet
	extended *extendedresourcecache.ExtendedResourceCache
	claims   claimTracker
	index    *deviceIndex
}

// deviceCaches are the caches of devices, or the objects of a simulation.
type deviceCaches struct {
	claims  deviceCache[*resourcev1.ResourceClaim]
	slices  deviceCache[*resourcev1.ResourceSlice]
	classes deviceCache[*resourcev1.DeviceClass]
}

// deviceCache is what a client.Cache has of a resource.
type deviceCache[T objects.Object] interface {
	Get(key objects.Key) (T, bool)
	List(namespace string, selector labels.Selector) []T
	Put(obj T)
	Synced() <-chan struct{}
	Subscribe(f func(client.Change[T]))
}

var _ framework.SharedDRAManager = (*devices)(nil)

func newDevices() *devices {
	d := &devices{extended: extendedresourcecache.NewExtendedResourceCache(klog.Background()), index: newDeviceIndex()}
	d.claims = claimTracker{devices: d, allocated: newAllocatedState(), pending: map[types.UID]*pendingAllocation{}}
	return d
}

// forPlugins returns the manager for a plugin.
func (d *devices) forPlugins() framework.SharedDRAManager {
	d.asked.Store(true)
	return d
}

// keeps reports whether the manager uses the cache of a resource.
func (d *devices) keeps(r framework.EventResource) bool {
	return d.asked.Load() && (r == framework.ResourceClaim || r == framework.ResourceSlice || r == framework.DeviceClass)
}

// attach makes the manager use the caches, once the API serves the resources.
func (d *devices) attach(caches *client.Caches) {
	from := &deviceCaches{
		claims:  client.CacheOf[*resourcev1.ResourceClaim](caches, eventResources[framework.ResourceClaim]),
		slices:  client.CacheOf[*resourcev1.ResourceSlice](caches, eventResources[framework.ResourceSlice]),
		classes: client.CacheOf[*resourcev1.DeviceClass](caches, eventResources[framework.DeviceClass]),
	}
	d.use(from)
}

// simulate makes the manager use the objects of a simulation.
func (d *devices) simulate(of *watchedObjects) {
	synced := make(chan struct{})
	close(synced)
	d.use(&deviceCaches{
		claims:  simulatedCache[*resourcev1.ResourceClaim]{of, framework.ResourceClaim, synced},
		slices:  simulatedCache[*resourcev1.ResourceSlice]{of, framework.ResourceSlice, synced},
		classes: simulatedCache[*resourcev1.DeviceClass]{of, framework.DeviceClass, synced},
	})
}

// simulatedCache is the objects of a resource in a simulation.
type simulatedCache[T objects.Object] struct {
	of       *watchedObjects
	resource framework.EventResource
	synced   <-chan struct{}
}

func (c simulatedCache[T]) Get(key objects.Key) (out T, ok bool) {
	obj, ok := c.of.get(c.resource, key)
	if ok {
		out = obj.(T)
	}
	return out, ok
}

// List returns all objects: the manager asks for no others.
func (c simulatedCache[T]) List(string, labels.Selector) (out []T) {
	for _, obj := range (SimulatedObjects{c.of}).List(c.resource) {
		out = append(out, obj.(T))
	}
	return out
}

func (c simulatedCache[T]) Put(obj T)                          { SimulatedObjects{c.of}.Put(c.resource, obj) }
func (c simulatedCache[T]) Synced() <-chan struct{}            { return c.synced }
func (c simulatedCache[T]) Subscribe(f func(client.Change[T])) { followed(c.of, c.resource, f) }

// use makes the manager follow caches, if it has none yet.
func (d *devices) use(from *deviceCaches) {
	if !d.from.CompareAndSwap(nil, from) {
		return
	}
	from.claims.Subscribe(d.claims.changed)
	from.slices.Subscribe(d.index.sliceChanged)
	from.classes.Subscribe(func(ch client.Change[*resourcev1.DeviceClass]) {
		defer d.index.classesChanged()
		switch {
		case ch.Deleted():
			d.extended.OnDelete(ch.Old)
		case ch.Added():
			d.extended.OnAdd(ch.New, ch.Replay)
		default:
			d.extended.OnUpdate(ch.Old, ch.New)
		}
	})
}

// startDevices attaches the caches if a plugin asked for the manager and the API serves the resources, and waits until they are synced.
// Otherwise watchEvents attaches them later.
func (s *Scheduler) startDevices(ctx context.Context) error {
	if !s.devices.asked.Load() {
		return nil
	}
	if _, err := s.client.List(ctx, client.Target{Resource: eventResources[framework.ResourceClaim]}, metav1.ListOptions{Limit: 1}); err != nil {
		return ctx.Err()
	}
	s.devices.attach(s.caches)
	return s.caches.WaitSynced(ctx)
}

// errUnknownDevices is the error of a cycle before the caches have their first lists.
var errUnknownDevices = errors.New("the scheduler has not listed the cluster's resource claims and devices yet")

// synced returns the caches once they have their first lists, and an error before.
func (d *devices) synced() (*deviceCaches, error) {
	from := d.from.Load()
	if from == nil {
		return nil, errUnknownDevices
	}
	for _, first := range []<-chan struct{}{from.claims.Synced(), from.slices.Synced(), from.classes.Synced()} {
		select {
		case <-first:
		default:
			return nil, errUnknownDevices
		}
	}
	return from, nil
}

// ResourceClaims and the methods below implement framework.SharedDRAManager.
func (d *devices) ResourceClaims() framework.ResourceClaimTracker     { return &d.claims }
func (d *devices) ResourceSlices() framework.ResourceSliceLister      { return deviceSlices{d} }
func (d *devices) DeviceClasses() framework.DeviceClassLister         { return deviceClasses{d} }
func (d *devices) DeviceClassResolver() framework.DeviceClassResolver { return d.extended }
func (d *devices) PodGroups() framework.PodGroupLister                { return unlistedGroups{} }

// unlistedGroups refuses to return PodGroups, as Kubernetes' manager does unless claims of PodGroups are switched on.
type unlistedGroups struct{}

func (unlistedGroups) Get(_, _ string) (*schedulingv1alpha2.PodGroup, error) {
	return nil, apierrors.NewBadRequest("listing podgroups is disabled")
}

type deviceSlices struct{ *devices }

// ListWithDeviceTaintRules returns all slices. There are no DeviceTaintRules: their feature gate is off by default.
func (s deviceSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	from, err := s.synced()
	if err != nil {
		return nil, err
	}
	return from.slices.List("", nil), nil
}

type deviceClasses struct{ *devices }

func (c deviceClasses) List() ([]*resourcev1.DeviceClass, error) {
	from, err := c.synced()
	if err != nil {
		return nil, err
	}
	return from.classes.List("", nil), nil
}

func (c deviceClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	if from := c.from.Load(); from != nil {
		if class, ok := from.classes.Get(objects.Key{Name: name}); ok {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// unknownClaim is the error about a claim that the scheduler does not know.
func unknownClaim(namespace, name string) error {
	return fmt.Errorf("could not find ResourceClaim %q", namespace+"/"+name)
}
