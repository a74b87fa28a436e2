package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// watchCustom looks at the objects of kinds that come and go.
func (g *garbageCollector) watchCustom(ctx context.Context, wake reconcile.Enqueue) {
	wakeAll := func(keys []objects.Key) {
		for _, key := range keys {
			wake(key, 0)
		}
	}
	g.custom.follow(kindFollower{
		begin: func(k customKind) {
			g.watch(k.Names, k.objects)(ctx, wake)
			wakeAll(g.acquainted(k.GVK().GroupKind()))
		},
		end: func(k customKind, gone bool) { wakeAll(g.leave(k, gone)) },
	})
}

// leave looks at the objects of a kind no more, and returns what is to be looked at because of that. All objects are deleted
// with their definition. The news of some may have been lost, but those with finalizers may indeed be there yet, if somebody
// did not let the definition wait for them.
func (g *garbageCollector) leave(k customKind, gone bool) []objects.Key {
	g.looked.Lock()
	g.watched = slices.DeleteFunc(g.watched, func(w watchedKind) bool { return w.objects == k.objects })
	g.looked.Unlock()
	var keys []objects.Key
	for _, obj := range k.objects.List("", nil) {
		for _, uid := range ownerUIDs(obj) {
			keys = append(keys, objects.Key{Name: uid}) // it may have waited for obj
		}
		if gone && len(obj.GetFinalizers()) == 0 {
			keys = append(keys, g.bereft(k.Names, obj)...)
		}
	}
	return keys
}

// How long the objects of a kind may take to be listed before an owner of theirs is let go without them, and how often to
// look whether they are.
const (
	listPatience = 30 * time.Second
	lookForLists = 50 * time.Millisecond
)

// unlisted reports whether dependents may be unknown because the objects of a kind that was found lately are not listed yet.
func (g *garbageCollector) unlisted() bool {
	g.looked.RLock()
	defer g.looked.RUnlock()
	return slices.ContainsFunc(g.watched, func(w watchedKind) bool {
		return !listed(w.objects) && g.clock.Since(w.since) < listPatience
	})
}

// maxStrangers bounds of how many objects it is remembered that they wait for their owner's kind.
const maxStrangers = 1000

// customKind returns a kind that is served but not built in. When there is none, object is noted as waiting for it.
func (g *garbageCollector) customKind(kind schema.GroupKind, object types.UID) (objects.Names, bool) {
	if n, ok := g.custom.find(kind); ok {
		return n, true
	}
	g.noteStranger(kind, object)
	return g.custom.find(kind) // which may have come before the note
}

func (g *garbageCollector) noteStranger(kind schema.GroupKind, object types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := 0
	for _, uids := range g.strangers {
		waiting += len(uids)
	}
	if waiting >= maxStrangers {
		clear(g.strangers)
	}
	if g.strangers[kind] == nil {
		g.strangers[kind] = map[types.UID]bool{}
	}
	g.strangers[kind][object] = true
}

// acquainted returns who waited for a kind.
func (g *garbageCollector) acquainted(kind schema.GroupKind) []objects.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []objects.Key
	for uid := range g.strangers[kind] {
		keys = append(keys, uidKey(uid))
	}
	delete(g.strangers, kind)
	return keys
}
