package scheduler

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// eventResources are the resources of the framework's events, except pods and nodes, which are always watched.
var eventResources = map[framework.EventResource]schema.GroupVersionResource{
	framework.PersistentVolume:      corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
	framework.PersistentVolumeClaim: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
	framework.CSINode:               storagev1.SchemeGroupVersion.WithResource("csinodes"),
	framework.CSIDriver:             storagev1.SchemeGroupVersion.WithResource("csidrivers"),
	framework.VolumeAttachment:      storagev1.SchemeGroupVersion.WithResource("volumeattachments"),
	framework.CSIStorageCapacity:    storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"),
	framework.StorageClass:          storagev1.SchemeGroupVersion.WithResource("storageclasses"),
	framework.ResourceClaim:         resourcev1.SchemeGroupVersion.WithResource("resourceclaims"),
	framework.ResourceSlice:         resourcev1.SchemeGroupVersion.WithResource("resourceslices"),
	framework.DeviceClass:           resourcev1.SchemeGroupVersion.WithResource("deviceclasses"),
	framework.PodGroup:              podGroupResource,
}

// podGroupResource is only served, and readable by the scheduler, with the feature gate GenericWorkload.
var podGroupResource = schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")

// gvrOf returns the resource of events: a name of the framework, or plural.version.group for any other resource.
func gvrOf(r framework.EventResource) (schema.GroupVersionResource, bool) {
	switch r {
	case framework.Pod:
		return client.Pods, true
	case framework.Node:
		return client.Nodes, true
	}
	if gvr, ok := eventResources[r]; ok {
		return gvr, true
	}
	gvr, _ := schema.ParseResourceArg(string(r))
	if gvr == nil {
		return schema.GroupVersionResource{}, false
	}
	return *gvr, true
}

// eventResources returns what the plugins registered for, besides events of pods and nodes.
func (m *setup) eventResources() sets.Set[framework.EventResource] {
	out := sets.New[framework.EventResource]()
	for _, p := range m.profiles {
		for _, events := range p.events {
			for _, e := range events {
				out.Insert(e.Event.Resource)
			}
		}
	}
	if out.Has(framework.WildCard) {
		out.Insert(sets.KeySet(eventResources).UnsortedList()...)
	}
	if !m.features.GenericWorkload {
		out.Delete(framework.PodGroup)
	}
	return out.Delete(framework.WildCard, framework.Pod, framework.Node)
}

// Values of Scheduler.watches.
const (
	watchProbing = 1 + iota // checking whether the API serves the resource
	watchRefused            // not served, or not readable by this scheduler: retried at the next flush
	watchRunning
)

// watchEvents watches the resources whose events the plugins registered for, and stops watching others. A resource that
// the API does not serve is tried again with each flush.
func (s *Scheduler) watchEvents(ctx context.Context) {
	wanted := s.setup.eventResources()
	for r, state := range s.watches {
		if gvr, ok := gvrOf(r); ok && state == watchRunning && !wanted.Has(r) && !s.devices.keeps(r) {
			s.caches.Forget(gvr)
			s.objects.remove(r)
			delete(s.watches, r)
		}
	}
	for r := range wanted {
		state := s.watches[r]
		if state == watchProbing || state == watchRunning {
			continue
		}
		gvr, ok := gvrOf(r)
		if !ok {
			continue
		}
		s.watches[r] = watchProbing
		ctx, work := clock.Begin(ctx, s.clock, "API calls of the scheduler")
		s.work.Go(func() {
			defer work.End()
			s.probe(ctx, r, gvr, state == watchRefused)
		})
	}
}

// probe watches a resource if the API serves it. again is true if it was not served at the last check.
func (s *Scheduler) probe(ctx context.Context, r framework.EventResource, gvr schema.GroupVersionResource, again bool) {
	_, err := s.client.List(ctx, client.Target{Resource: gvr}, metav1.ListOptions{Limit: 1})
	if err != nil && !again && ctx.Err() == nil {
		slog.InfoContext(ctx, "events that scheduler plugins registered for cannot be watched yet", "resource", gvr.String(), "err", err)
	}
	s.post(func(context.Context) {
		if err != nil {
			s.watches[r] = watchRefused
			return
		}
		s.watches[r] = watchRunning
		if s.devices.keeps(r) {
			s.devices.attach(s.caches)
		}
		cache := client.CacheOf[objects.Object](s.caches, gvr)
		s.objects.set(r, cache.Get)
		cache.Subscribe(func(ch client.Change[objects.Object]) {
			s.inbox.send(clusterChange{ch.Revision, ch.Replay, func(ctx context.Context) { s.objectChanged(ctx, r, ch) }})
		})
	})
}

// informerChanged handles a change that an informer of plugins has applied. The scheduler's own caches deliver the same change, but perhaps before
// it: a plugin that reads the informer then rejects the pod again, which has to be requeued once the informer has the change.
func (s *Scheduler) informerChanged(gvr schema.GroupVersionResource, old, now any) {
	ev := event{ClusterEvent: framework.ClusterEvent{ActionType: framework.Update}, old: old, new: now}
	switch {
	case old == nil:
		ev.ActionType = framework.Add
	case now == nil:
		ev.ActionType = framework.Delete
	}
	s.post(func(ctx context.Context) {
		for r := range s.setup.eventResources().Insert(framework.Pod, framework.Node) {
			if of, ok := gvrOf(r); ok && of == gvr {
				ev := ev
				ev.Resource = r
				s.queue.moveOnEvent(ctx, ev, s.clock.Now())
			}
		}
	})
}

// objectChanged handles a change of an object other than a pod or node.
func (s *Scheduler) objectChanged(ctx context.Context, r framework.EventResource, ch client.Change[objects.Object]) {
	began := s.machine.Now()
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: r, ActionType: framework.Update}, revision: ch.Revision}
	if ch.Added() {
		ev.ActionType = framework.Add
	} else {
		ev.old = ch.Old
	}
	if ch.Deleted() {
		ev.ActionType = framework.Delete
	} else {
		ev.new = ch.New
	}
	s.queue.moveOnEvent(ctx, ev, s.clock.Now())
	s.handled(ev, began)
}
