package client

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Change is what a Cache tells its subscribers: Old is nil for a new object, New for a deleted one. An object that was
// deleted and made again in a moment may come as one change, whose Old and New have different UIDs.
type Change[T objects.Object] struct {
	Old, New T
	Revision uint64 // of the change
	Replay   bool   // the object was there before: part of the first list, or of the list after a lost watch
}

// Key names the object that changed.
func (c Change[T]) Key() objects.Key {
	if !c.Deleted() {
		return keyOf(c.New)
	}
	return keyOf(c.Old)
}

// Deleted reports whether the object is gone.
func (c Change[T]) Deleted() bool { return isNil(c.New) }

// Added reports whether the object is new to the cache.
func (c Change[T]) Added() bool { return isNil(c.Old) }

func isNil[T objects.Object](obj T) bool {
	var zero T
	return any(obj) == any(zero)
}

// as returns obj as a T, and nothing as T's zero.
func as[T objects.Object](obj objects.Object) T {
	var zero T
	if obj == nil {
		return zero
	}
	return obj.(T)
}

// Cache is a local copy of one resource (or of what a selector takes of it), kept current by a watch. Objects in it are
// shared and must not be changed. It is safe for concurrent use. Subscribers are called one change at a time, in order,
// after the cache shows the change; they may look into caches, but must not block, Put or Drop.
//
// T is the resource's type, or objects.Object where the type does not matter: caches of one resource share their copy.
type Cache[T objects.Object] struct{ local *local }

// Resource returns what the cache holds.
func (c *Cache[T]) Resource() schema.GroupVersionResource { return c.local.resource }

// Subscribe calls f for each change from now on, first (in one go, before Subscribe returns) for what is there already.
func (c *Cache[T]) Subscribe(f func(Change[T])) {
	c.local.subscribe(func(ch Change[objects.Object]) {
		f(Change[T]{Old: as[T](ch.Old), New: as[T](ch.New), Revision: ch.Revision, Replay: ch.Replay})
	})
}

// Get returns the object of key.
func (c *Cache[T]) Get(key objects.Key) (T, bool) {
	obj, ok := c.local.get(key)
	return as[T](obj), ok
}

// List returns the objects of a namespace ("": all) that selector (nil: everything) takes, in no order.
func (c *Cache[T]) List(namespace string, selector labels.Selector) []T {
	return all[T](c.local.list(namespace, selector))
}

// ByIndex returns the objects that the index lists under value, in no order. An index is built at its first use and kept
// current from then on.
func (c *Cache[T]) ByIndex(x Index[T], value string) []T { return all[T](c.local.by(x.indexer, value)) }

// OwnedBy returns the objects whose controller has that UID, in no order.
func (c *Cache[T]) OwnedBy(uid types.UID) []T { return all[T](c.local.by(byController, string(uid))) }

// Revision returns how far list and watch have come.
func (c *Cache[T]) Revision() uint64 { return c.local.revision() }

// Synced is closed once the first list is in.
func (c *Cache[T]) Synced() <-chan struct{} { return c.local.synced }

// Put shows obj in the cache before the watch brings it: what a writer has just had confirmed. An object that is older
// than what the cache has seen is ignored. Subscribers are told.
func (c *Cache[T]) Put(obj T) { c.local.put(obj) }

// Drop hides obj before the watch does: what a deleter has just had confirmed to be gone. Subscribers are told.
func (c *Cache[T]) Drop(obj T) { c.local.drop(obj) }

func all[T objects.Object](in []objects.Object) []T {
	out := make([]T, len(in))
	for i, obj := range in {
		out[i] = obj.(T)
	}
	return out
}
