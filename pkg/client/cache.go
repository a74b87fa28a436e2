package client

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Change is a change of a Cache. Old is nil for a new object, New for a deleted one. An object that was deleted and created
// again in quick succession may come as one change, whose Old and New have different UIDs.
type Change[T objects.Object] struct {
	Old, New T
	Revision uint64 // of the change
	Replay   bool   // the object comes from the first list, or from a list after an expired watch
}

// Key returns the key of the object that changed.
func (c Change[T]) Key() objects.Key {
	if !c.Deleted() {
		return keyOf(c.New)
	}
	return keyOf(c.Old)
}

// Deleted reports whether the object was deleted.
func (c Change[T]) Deleted() bool { return isNil(c.New) }

// Added reports whether the object is new to the cache.
func (c Change[T]) Added() bool { return isNil(c.Old) }

func isNil[T objects.Object](obj T) bool {
	var zero T
	return any(obj) == any(zero)
}

// as returns obj as a T, and nil as T's zero value.
func as[T objects.Object](obj objects.Object) T {
	var zero T
	if obj == nil {
		return zero
	}
	return obj.(T)
}

// Cache is an informer: it holds the objects of one resource, or those that selectors match, and keeps them current with
// a watch. The objects are shared and must not be changed. It is safe for concurrent use. Subscribers are called with one
// change at a time, in order, after the cache shows the change. They may read caches, but must not block, Put or Drop.
//
// T is the resource's type, or objects.Object. Caches of one resource share their objects, even with different T.
type Cache[T objects.Object] struct{ informer *informer }

// Resource returns the resource of the cache's objects.
func (c *Cache[T]) Resource() schema.GroupVersionResource { return c.informer.resource }

// Subscribe calls f for the objects in the cache, before it returns, and then for each change.
func (c *Cache[T]) Subscribe(f func(Change[T])) {
	c.informer.subscribe(func(ch Change[objects.Object]) {
		f(Change[T]{Old: as[T](ch.Old), New: as[T](ch.New), Revision: ch.Revision, Replay: ch.Replay})
	})
}

// Get returns the object of key.
func (c *Cache[T]) Get(key objects.Key) (T, bool) {
	obj, ok := c.informer.get(key)
	return as[T](obj), ok
}

// List returns the objects of a namespace ("": all) that selector matches (nil: all), in no order.
func (c *Cache[T]) List(namespace string, selector labels.Selector) []T {
	return all[T](c.informer.list(namespace, selector))
}

// ByIndex returns the objects that an index lists under value, in no order. The first use of an index builds it.
func (c *Cache[T]) ByIndex(x Index[T], value string) []T {
	return all[T](c.informer.by(x.indexer, value))
}

// OwnedBy returns the objects whose controller has that UID, in no order.
func (c *Cache[T]) OwnedBy(uid types.UID) []T {
	return all[T](c.informer.by(byController, string(uid)))
}

// Revision returns the revision that list and watch have reached.
func (c *Cache[T]) Revision() uint64 { return c.informer.revision() }

// Synced returns a channel that is closed when the cache has its first list.
func (c *Cache[T]) Synced() <-chan struct{} { return c.informer.synced }

// Put adds an object that a write returned, before the watch delivers it. It ignores an object that is older than the
// cache. Subscribers are called.
func (c *Cache[T]) Put(obj T) { c.informer.put(obj) }

// Drop removes an object whose deletion a request confirmed, before the watch delivers the deletion. Subscribers are called.
func (c *Cache[T]) Drop(obj T) { c.informer.drop(obj) }

func all[T objects.Object](in []objects.Object) []T {
	out := make([]T, len(in))
	for i, obj := range in {
		out[i] = obj.(T)
	}
	return out
}
