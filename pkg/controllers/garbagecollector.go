package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// dependents is an index of objects by the UIDs of all their owners, and identity one by their own.
var (
	dependents = client.NewIndex(ownerUIDs)
	identity   = client.NewIndex(func(obj objects.Object) []string { return []string{string(obj.GetUID())} })
)

// garbageCollector is the controller of owner references. Its keys are UIDs. What it deletes it has looked at on the
// server before, the object and its owners: the caches only say where to look.
type garbageCollector struct {
	client client.Client
	clock  clock.Clock
	kinds  map[schema.GroupKind]objects.Names // built in
	custom *customKinds
	wake   reconcile.Enqueue

	looked  sync.RWMutex
	watched []watchedKind

	mu        sync.Mutex
	absent    map[absentOwner]bool                    // what is known to be gone: a UID never comes back
	strangers map[schema.GroupKind]map[types.UID]bool // objects whose owners are of kinds that are not served yet
}

// watchedKind is a kind with its objects, which are followed since that time.
type watchedKind struct {
	objects.Names
	objects *client.Cache[objects.Object]
	since   time.Time
}

func newGarbageCollector(env Env) *garbageCollector {
	g := &garbageCollector{
		client: env.Client, clock: env.Clock, custom: env.custom, kinds: map[schema.GroupKind]objects.Names{},
		absent: map[absentOwner]bool{}, strangers: map[schema.GroupKind]map[types.UID]bool{},
	}
	for _, n := range collected() {
		g.kinds[n.GVK().GroupKind()] = n
	}
	return g
}

// GarbageCollector deletes what has lost all its owners, and carries out foreground and orphaning deletions.
func GarbageCollector(env Env) reconcile.Loop {
	g := newGarbageCollector(env)
	l := reconcile.Loop{
		Name:      "garbagecollector",
		Sources:   []reconcile.Source{func(_ context.Context, wake reconcile.Enqueue) { g.wake = wake }},
		Reconcile: g.reconcile,
		Workers:   many,
	}
	for _, n := range collected() {
		l.Sources = append(l.Sources, g.watch(n, client.CacheOf[objects.Object](env.Caches, n.GVR())))
	}
	l.Sources = append(l.Sources, g.watchCustom)
	return l
}

// watch makes a kind one whose objects are looked at.
func (g *garbageCollector) watch(n objects.Names, c *client.Cache[objects.Object]) reconcile.Source {
	g.looked.Lock()
	defer g.looked.Unlock()
	g.watched = append(g.watched, watchedKind{n, c, g.clock.Now()})
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

// affected returns what a change makes worth looking at: the object when its owners are new or it waits for us, its
// dependents when it is gone, and its owners when they may be waiting for it to go.
func (g *garbageCollector) affected(n objects.Names, ch client.Change[objects.Object]) []objects.Key {
	var keys []objects.Key
	if !ch.Added() && (ch.Deleted() || ch.Old.GetUID() != ch.New.GetUID()) {
		keys = g.bereft(n, ch.Old)
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
	if fresh && len(ch.New.GetOwnerReferences()) > 0 || !fresh && !slices.Equal(ownerUIDs(ch.Old), ownerUIDs(ch.New)) || waitsForUs(ch.New) {
		keys = append(keys, uidKey(ch.New.GetUID()))
	}
	return keys
}

// bereft returns the dependents of an object that is gone. That it is gone is noted when it is a custom one: its kind may be
// gone, too, when somebody wants to know.
func (g *garbageCollector) bereft(n objects.Names, obj objects.Object) []objects.Key {
	kind := n.GVK().GroupKind()
	if _, builtin := g.kinds[kind]; !builtin {
		g.noteAbsent(absentOwner{obj.GetUID(), kind, keyOf(obj)})
	}
	var keys []objects.Key
	for _, dep := range g.dependentsOf(obj.GetUID()) {
		keys = append(keys, uidKey(dep.obj.GetUID()))
	}
	return keys
}

// waitsForUs reports whether obj is being deleted and has a finalizer of ours.
func waitsForUs(obj objects.Object) bool {
	return obj.GetDeletionTimestamp() != nil &&
		(has(obj, metav1.FinalizerDeleteDependents) || has(obj, metav1.FinalizerOrphanDependents))
}

func has(obj metav1.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// inForeground reports whether obj waits for its dependents to go first.
func inForeground(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && has(obj, metav1.FinalizerDeleteDependents)
}

// found is an object and the resource it is of.
type found struct {
	obj      objects.Object
	resource schema.GroupVersionResource
}

func (f found) target() client.Target {
	return client.In(f.resource, objects.Key{Namespace: f.obj.GetNamespace(), Name: f.obj.GetName()})
}

func (g *garbageCollector) find(uid types.UID) (found, bool) {
	g.looked.RLock()
	defer g.looked.RUnlock()
	for _, k := range g.watched {
		if objs := k.objects.ByIndex(identity, string(uid)); len(objs) > 0 {
			return found{objs[0], k.GVR()}, true
		}
	}
	return found{}, false
}

func (g *garbageCollector) dependentsOf(uid types.UID) []found {
	var out []found
	g.looked.RLock()
	defer g.looked.RUnlock()
	for _, k := range g.watched {
		for _, obj := range k.objects.ByIndex(dependents, string(uid)) {
			out = append(out, found{obj, k.GVR()})
		}
	}
	return out
}

func (g *garbageCollector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	f, ok := g.find(types.UID(key.Name))
	if !ok {
		return 0, nil
	}
	switch {
	case waitsForUs(f.obj) && g.unlisted():
		return lookForLists, nil
	case f.obj.GetDeletionTimestamp() != nil && has(f.obj, metav1.FinalizerOrphanDependents):
		return 0, g.orphan(ctx, f)
	case inForeground(f.obj):
		return 0, g.foreground(ctx, f)
	case f.obj.GetDeletionTimestamp() != nil || len(f.obj.GetOwnerReferences()) == 0:
		return 0, nil
	}
	if g.owned(f.obj) {
		return 0, nil
	}
	return 0, g.collect(ctx, f)
}

// owned reports whether the caches show all owners of obj, none of them waiting for it: the usual case, which needs no
// look at the server.
func (g *garbageCollector) owned(obj objects.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		owner, ok := g.find(ref.UID)
		if !ok || !g.reaches(ref, obj, owner.obj) || inForeground(owner.obj) {
			return false
		}
	}
	return true
}

// reaches reports whether a reference of obj can mean owner: an owner with a namespace owns only in it.
func (g *garbageCollector) reaches(ref metav1.OwnerReference, obj, owner metav1.Object) bool {
	return owner.GetName() == ref.Name && (owner.GetNamespace() == "" || owner.GetNamespace() == obj.GetNamespace())
}

// state says what has become of an owner.
type state int

const (
	solid   state = iota // there
	waiting              // being deleted, after its dependents
	gone                 // not there
	unknown              // of a kind that is not served here, or out of the reference's reach: nobody can tell
)

// collect looks at an object and its owners on the server and deletes it when no owner is left.
func (g *garbageCollector) collect(ctx context.Context, f found) error {
	latest, err := g.client.Get(ctx, f.target(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && latest.GetUID() != f.obj.GetUID() {
		return nil
	}
	if err != nil {
		return err
	}
	owners := map[state][]types.UID{}
	for _, ref := range latest.GetOwnerReferences() {
		s, err := g.ask(ctx, ref, latest)
		if err != nil {
			return err
		}
		owners[s] = append(owners[s], ref.UID)
	}
	f.obj = latest
	switch {
	case len(latest.GetOwnerReferences()) == 0 || latest.GetDeletionTimestamp() != nil:
		return nil
	case len(owners[solid])+len(owners[unknown]) > 0:
		return g.dropOwners(ctx, f, append(owners[gone], owners[waiting]...))
	case len(owners[waiting]) > 0 && len(g.dependentsOf(latest.GetUID())) > 0:
		if f, err = g.breakCircles(ctx, f); err != nil || f.obj == nil {
			return err
		}
		return g.delete(ctx, f, metav1.DeletePropagationForeground)
	}
	return g.delete(ctx, f, inheritedPolicy(latest))
}

// inheritedPolicy is how to delete an object that has lost its owners: as its own finalizers ask for.
func inheritedPolicy(obj metav1.Object) metav1.DeletionPropagation {
	switch {
	case has(obj, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case has(obj, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// absentOwner is an owner as a reference names it. The UID alone would not do: who names it wrongly, or from another
// namespace, must not make it absent for others.
type absentOwner struct {
	uid  types.UID
	kind schema.GroupKind
	key  objects.Key
}

// ask asks the server what has become of an owner.
func (g *garbageCollector) ask(ctx context.Context, ref metav1.OwnerReference, obj objects.Object) (state, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return unknown, nil //nolint:nilerr // nobody can be asked about it
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
	if g.knownAbsent(absentOwner{ref.UID, kind, objects.Key{Namespace: obj.GetNamespace(), Name: ref.Name}}) ||
		g.knownAbsent(absentOwner{ref.UID, kind, objects.Key{Name: ref.Name}}) {
		return gone, nil
	}
	n, served := g.kinds[kind]
	if !served {
		n, served = g.customKind(kind, obj.GetUID())
	}
	if !served || !n.Cluster && obj.GetNamespace() == "" {
		slog.DebugContext(ctx, "owner cannot be looked up", "key", keyOf(obj).String(), "owner", ref.Kind+"/"+ref.Name)
		return unknown, nil
	}
	key := objects.Key{Name: ref.Name}
	if !n.Cluster {
		key.Namespace = obj.GetNamespace()
	}
	owner, err := g.client.Get(ctx, client.In(n.GVR(), key), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && owner.GetUID() != ref.UID:
		g.noteAbsent(absentOwner{ref.UID, kind, key})
		return gone, nil
	case err != nil:
		return unknown, fmt.Errorf("look up owner %s %s: %w", ref.Kind, ref.Name, err)
	case inForeground(owner):
		return waiting, nil
	}
	return solid, nil
}

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// maxAbsent bounds what is remembered of owners that are gone.
const maxAbsent = 1000

func (g *garbageCollector) knownAbsent(o absentOwner) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.absent[o]
}

func (g *garbageCollector) noteAbsent(o absentOwner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.absent) >= maxAbsent {
		clear(g.absent)
	}
	g.absent[o] = true
}
