package gc

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// monitorCustom adds and removes monitors as custom kinds come and go.
func (g *garbageCollector) monitorCustom(ctx context.Context, enqueue reconcile.Enqueue) {
	enqueueAll := func(keys []objects.Key) {
		for _, key := range keys {
			enqueue(key, 0)
		}
	}
	g.custom.Follow(controller.KindFollower{
		Begin: func(k controller.CustomKind) {
			g.monitor(k.Names, k.Objects)(ctx, enqueue)
			enqueueAll(g.ownerKindAppeared(k.GVK().GroupKind()))
		},
		End: func(k controller.CustomKind, deletedAt uint64) { enqueueAll(g.removeMonitor(k, deletedAt)) },
	})
}

// removeMonitor removes the monitor of a kind and returns the keys that this affects. With a definition all its objects are
// deleted, so those left in the cache are absent, although their watch events were lost. Two groups may exist: objects with finalizers,
// since a client can remove the finalizer that makes the definition wait for them, and those of a new definition with the same names,
// whose revisions are later than the deletion.
func (g *garbageCollector) removeMonitor(k controller.CustomKind, deletedAt uint64) []objects.Key {
	g.monitorsMu.Lock()
	g.monitors = slices.DeleteFunc(g.monitors, func(m monitor) bool { return m.objects == k.Objects })
	g.monitorsMu.Unlock()
	var keys []objects.Key
	for _, obj := range k.Objects.List("", nil) {
		for _, uid := range ownerUIDs(obj) {
			keys = append(keys, objects.Key{Name: uid}) // the owner may wait for obj
		}
		switch {
		case deletedAt == 0 || len(obj.GetFinalizers()) > 0:
		case objects.RevisionOf(obj) < deletedAt:
			keys = append(keys, g.orphanedBy(k.Names, obj)...)
		default:
			keys = append(keys, g.dependentKeys(obj.GetUID())...) // the API server is asked for their owner
		}
	}
	return keys
}

// syncTimeout is how long a deletion waits for the first list of a new kind, whose objects may be dependents.
const syncTimeout = 30 * time.Second

// awaitsSync reports whether dependents may be unknown because the cache of a new kind has not synced.
func (g *garbageCollector) awaitsSync() bool {
	g.monitorsMu.RLock()
	defer g.monitorsMu.RUnlock()
	return slices.ContainsFunc(g.monitors, func(m monitor) bool {
		return !controller.HasSynced(m.objects) && g.clock.Since(m.since) < syncTimeout
	})
}

// maxUnresolved bounds the recorded objects that have an owner of a kind which is not established.
const maxUnresolved = 1000

// customKind returns an established custom kind. If the kind is not established, it records that object has an owner of it.
func (g *garbageCollector) customKind(kind schema.GroupKind, object types.UID) (objects.Names, bool) {
	if n, ok := g.custom.Find(kind); ok {
		return n, true
	}
	g.recordUnresolved(kind, object)
	return g.custom.Find(kind) // the kind may have been established before the record was made
}

func (g *garbageCollector) recordUnresolved(kind schema.GroupKind, object types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, uids := range g.unresolved {
		n += len(uids)
	}
	if n >= maxUnresolved {
		clear(g.unresolved)
	}
	if g.unresolved[kind] == nil {
		g.unresolved[kind] = map[types.UID]bool{}
	}
	g.unresolved[kind][object] = true
}

// ownerKindAppeared returns the keys of the objects that have an owner of a kind which is now established.
func (g *garbageCollector) ownerKindAppeared(kind schema.GroupKind) []objects.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []objects.Key
	for uid := range g.unresolved[kind] {
		keys = append(keys, uidKey(uid))
	}
	delete(g.unresolved, kind)
	return keys
}
