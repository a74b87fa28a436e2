// Package gc holds the garbage collector: it deletes objects whose owners are absent, and carries out foreground and orphan
// deletion.
package gc

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	// byOwner lists objects by the UIDs of all their owners.
	byOwner = client.NewIndex(ownerUIDs)

	// byUID lists each object by its own UID.
	byUID = client.NewIndex(func(obj objects.Object) []string { return []string{string(obj.GetUID())} })
)

// garbageCollector is the controller of owner references. Its keys are UIDs. The caches only give candidates: before it
// deletes an object, it reads the object and its owners from the API server.
type garbageCollector struct {
	client  client.Client
	events  *client.Recorder
	clock   clock.Clock
	builtin map[schema.GroupKind]objects.Names
	custom  *controller.CustomKinds
	enqueue reconcile.Enqueue

	monitorsMu sync.RWMutex
	monitors   []monitor

	mu           sync.Mutex
	absentOwners map[absentOwner]bool                    // never outdated: a UID is not used again
	unresolved   map[schema.GroupKind]map[types.UID]bool // objects with an owner of a kind that is not established yet
}

// monitor is a kind whose objects the garbage collector watches.
type monitor struct {
	objects.Names
	objects *client.Cache[objects.Object]
	since   time.Time // when the monitor was added
}

func newGarbageCollector(env controller.Env) *garbageCollector {
	g := &garbageCollector{
		client: env.Client, events: env.Events, clock: clock.Machine(env.Clock), custom: env.Custom,
		builtin:      map[schema.GroupKind]objects.Names{},
		absentOwners: map[absentOwner]bool{}, unresolved: map[schema.GroupKind]map[types.UID]bool{},
	}
	for _, n := range controller.DeletableResources(env.Features) {
		g.builtin[n.GVK().GroupKind()] = n
	}
	return g
}

// GarbageCollector deletes objects whose owners are all absent, and carries out foreground and orphan deletion.
func GarbageCollector(env controller.Env) reconcile.Loop {
	g := newGarbageCollector(env)
	l := reconcile.Loop{
		Name:      "garbagecollector",
		Sources:   []reconcile.Source{func(_ context.Context, enqueue reconcile.Enqueue) { g.enqueue = enqueue }},
		Reconcile: g.reconcile,
		Workers:   controller.ManyWorkers,
	}
	for _, n := range controller.DeletableResources(env.Features) {
		l.Sources = append(l.Sources, g.monitor(n, client.CacheOf[objects.Object](env.Caches, n.GVR())))
	}
	l.Sources = append(l.Sources, g.monitorCustom)
	return l
}

// monitor adds a monitor of a kind and returns the source of its changes.
func (g *garbageCollector) monitor(n objects.Names, c *client.Cache[objects.Object]) reconcile.Source {
	g.monitorsMu.Lock()
	defer g.monitorsMu.Unlock()
	g.monitors = append(g.monitors, monitor{n, c, g.clock.Now()})
	return reconcile.Map(c, func(ch client.Change[objects.Object]) []objects.Key { return g.affected(n, ch) })
}

func ownerUIDs(obj objects.Object) []string {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	uids := make([]string, len(refs))
	for i, ref := range refs {
		uids[i] = string(ref.UID)
	}
	return uids
}

func uidKey(uid types.UID) objects.Key { return objects.Key{Name: string(uid)} }

// affected maps a change to keys: those of an object with new owners or a finalizer of the garbage collector, of the
// dependents of a deleted object, and of owners that may wait for the deletion of a dependent.
func (g *garbageCollector) affected(n objects.Names, ch client.Change[objects.Object]) []objects.Key {
	var keys []objects.Key
	if !ch.Added() && (ch.Deleted() || ch.Old.GetUID() != ch.New.GetUID()) {
		keys = g.orphanedBy(n, ch.Old)
	}
	if !ch.Added() && (ch.Deleted() || !equality.Semantic.DeepEqual(ch.Old.GetOwnerReferences(), ch.New.GetOwnerReferences())) {
		for _, uid := range ownerUIDs(ch.Old) {
			keys = append(keys, objects.Key{Name: uid})
		}
	}
	if ch.Deleted() {
		return keys
	}
	fresh := ch.Added() || ch.Old.GetUID() != ch.New.GetUID()
	if fresh && len(ch.New.GetOwnerReferences()) > 0 || !fresh && !slices.Equal(ownerUIDs(ch.Old), ownerUIDs(ch.New)) || needsFinalizing(ch.New) {
		keys = append(keys, uidKey(ch.New.GetUID()))
	}
	return keys
}

// orphanedBy returns the keys of the dependents of a deleted object. It records a custom object as an absent owner,
// because the API server cannot look it up once its kind is no longer established.
func (g *garbageCollector) orphanedBy(n objects.Names, obj objects.Object) []objects.Key {
	kind := n.GVK().GroupKind()
	if _, builtin := g.builtin[kind]; !builtin {
		g.recordAbsent(absentOwner{obj.GetUID(), kind, controller.KeyOf(obj)})
	}
	return g.dependentKeys(obj.GetUID())
}

// dependentKeys returns the keys of the objects in the caches with an owner of this UID.
func (g *garbageCollector) dependentKeys(uid types.UID) []objects.Key {
	var keys []objects.Key
	for _, dep := range g.dependentsOf(uid) {
		keys = append(keys, uidKey(dep.GetUID()))
	}
	return keys
}

// needsFinalizing reports whether obj is being deleted and has a finalizer of the garbage collector.
func needsFinalizing(obj objects.Object) bool {
	return obj.GetDeletionTimestamp() != nil &&
		(hasFinalizer(obj, metav1.FinalizerDeleteDependents) || hasFinalizer(obj, metav1.FinalizerOrphanDependents))
}

func hasFinalizer(obj metav1.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// inForegroundDeletion reports whether obj is being deleted once its blocking dependents are gone.
func inForegroundDeletion(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && hasFinalizer(obj, metav1.FinalizerDeleteDependents)
}

// item is an object and its resource.
type item struct {
	objects.Object
	resource schema.GroupVersionResource
}

func (i item) target() client.Target { return client.In(i.resource, controller.KeyOf(i)) }

// find returns the object with a UID from a cache.
func (g *garbageCollector) find(uid types.UID) (item, bool) {
	g.monitorsMu.RLock()
	defer g.monitorsMu.RUnlock()
	for _, m := range g.monitors {
		if objs := m.objects.ByIndex(byUID, string(uid)); len(objs) > 0 {
			return item{objs[0], m.GVR()}, true
		}
	}
	return item{}, false
}

// dependentsOf returns the objects in the caches with an owner of this UID.
func (g *garbageCollector) dependentsOf(uid types.UID) []item {
	var out []item
	g.monitorsMu.RLock()
	defer g.monitorsMu.RUnlock()
	for _, m := range g.monitors {
		for _, obj := range m.objects.ByIndex(byOwner, string(uid)) {
			out = append(out, item{obj, m.GVR()})
		}
	}
	return out
}

func (g *garbageCollector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	i, ok := g.find(types.UID(key.Name))
	if !ok {
		return 0, nil
	}
	switch {
	case needsFinalizing(i) && g.awaitsSync():
		return controller.SyncPoll, nil
	case i.GetDeletionTimestamp() != nil && hasFinalizer(i, metav1.FinalizerOrphanDependents):
		return 0, g.orphanDependents(ctx, i)
	case inForegroundDeletion(i):
		return 0, g.deleteInForeground(ctx, i)
	case i.GetDeletionTimestamp() != nil || len(i.GetOwnerReferences()) == 0:
		return 0, nil
	}
	if g.ownersExist(i) {
		return 0, nil
	}
	return 0, g.collect(ctx, i)
}

// ownersExist reports whether the caches have all owners of obj and none of them is in foreground deletion. This most
// frequent case needs no request to the API server.
func (g *garbageCollector) ownersExist(obj objects.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		owner, ok := g.find(ref.UID)
		if !ok || !coordinatesMatch(ref, obj, owner) || inForegroundDeletion(owner) {
			return false
		}
	}
	return true
}

// coordinatesMatch reports whether a reference of obj can be to owner: the names are equal, and a namespaced owner is
// in obj's namespace.
func coordinatesMatch(ref metav1.OwnerReference, obj, owner metav1.Object) bool {
	return owner.GetName() == ref.Name && (owner.GetNamespace() == "" || owner.GetNamespace() == obj.GetNamespace())
}

// ownerState is the result of looking up an owner in the API server.
type ownerState int

const (
	exists  ownerState = iota
	waiting            // in foreground deletion
	absent
	unknown // its kind is not served, or it is in another namespace: it may exist
)

// collect reads an object and its owners from the API server, and deletes the object if no owner exists.
func (g *garbageCollector) collect(ctx context.Context, i item) error {
	latest, err := g.client.Get(ctx, i.target(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && latest.GetUID() != i.GetUID() {
		return nil
	}
	if err != nil {
		return err
	}
	g.reportForeignOwners(ctx, latest)
	owners := map[ownerState][]types.UID{}
	for _, ref := range latest.GetOwnerReferences() {
		s, err := g.lookUp(ctx, ref, latest)
		if err != nil {
			return err
		}
		owners[s] = append(owners[s], ref.UID)
	}
	i.Object = latest
	switch {
	case len(latest.GetOwnerReferences()) == 0 || latest.GetDeletionTimestamp() != nil:
		return nil
	case len(owners[exists])+len(owners[unknown]) > 0:
		return g.removeOwners(ctx, i, append(owners[absent], owners[waiting]...))
	case len(owners[waiting]) > 0 && len(g.dependentsOf(latest.GetUID())) > 0:
		if i, err = g.unblockCircles(ctx, i); err != nil || i.Object == nil {
			return err
		}
		return g.delete(ctx, i, metav1.DeletePropagationForeground)
	}
	return g.delete(ctx, i, policyOf(latest))
}

// reportForeignOwners records an Event for each reference of obj to an object of another namespace, which cannot be its owner.
func (g *garbageCollector) reportForeignOwners(ctx context.Context, obj objects.Object) {
	for _, ref := range obj.GetOwnerReferences() {
		if owner, ok := g.find(ref.UID); ok && owner.GetNamespace() != "" && owner.GetNamespace() != obj.GetNamespace() {
			g.events.Event(ctx, obj, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", fmt.Sprintf(
				"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
				ref.APIVersion, ref.Kind, obj.GetNamespace(), ref.Name, ref.UID, obj.GetNamespace()))
		}
	}
}

// policyOf returns the propagation policy that an object's finalizers request.
func policyOf(obj metav1.Object) metav1.DeletionPropagation {
	switch {
	case hasFinalizer(obj, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case hasFinalizer(obj, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// absentOwner is an owner reference without an owner. The UID alone is not enough: a reference with a wrong name, kind
// or namespace must not make an existing owner absent for correct references.
type absentOwner struct {
	uid  types.UID
	kind schema.GroupKind
	key  objects.Key
}

// lookUp reads the owner of a reference of obj from the API server.
func (g *garbageCollector) lookUp(ctx context.Context, ref metav1.OwnerReference, obj objects.Object) (ownerState, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return unknown, nil //nolint:nilerr // an owner that cannot be looked up may exist
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	if g.isAbsent(absentOwner{ref.UID, kind, objects.Key{Namespace: obj.GetNamespace(), Name: ref.Name}}) ||
		g.isAbsent(absentOwner{ref.UID, kind, objects.Key{Name: ref.Name}}) {
		return absent, nil
	}
	n, served := g.builtin[kind]
	if !served {
		n, served = g.customKind(kind, obj.GetUID())
	}
	if !served || !n.Cluster && obj.GetNamespace() == "" {
		slog.DebugContext(ctx, "owner cannot be looked up", "key", controller.KeyOf(obj).String(), "owner", ref.Kind+"/"+ref.Name)
		return unknown, nil
	}
	key := objects.Key{Name: ref.Name}
	if !n.Cluster {
		key.Namespace = obj.GetNamespace()
	}
	owner, err := g.client.Get(ctx, client.In(n.GVR(), key), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && owner.GetUID() != ref.UID:
		g.recordAbsent(absentOwner{ref.UID, kind, key})
		return absent, nil
	case err != nil:
		return unknown, fmt.Errorf("look up owner %s %s: %w", ref.Kind, ref.Name, err)
	case inForegroundDeletion(owner):
		return waiting, nil
	}
	return exists, nil
}

// maxAbsentOwners bounds the recorded absent owners. Above it, all are dropped and looked up again.
const maxAbsentOwners = 1000

func (g *garbageCollector) isAbsent(o absentOwner) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.absentOwners[o]
}

func (g *garbageCollector) recordAbsent(o absentOwner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.absentOwners) >= maxAbsentOwners {
		clear(g.absentOwners)
	}
	g.absentOwners[o] = true
}
