package client

import (
	"context"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Change is what a Cache tells its subscribers: Old is nil for a new object, New for a deleted one.
type Change[T objects.Object] struct {
	Old, New T
	Revision uint64 // of the change
	Replay   bool   // the object was there before: part of the first list, or of the list after a lost watch
}

// Key names the object that changed.
func (c Change[T]) Key() objects.Key {
	if any(c.New) != nil && !isNil(c.New) {
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

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Cache is a local copy of one resource (or of what a selector takes of it), kept current by a watch. Objects in it are
// shared and must not be changed. It is safe for concurrent use. Subscribers are called one change at a time, in
// revision order, after the cache shows the change; they must not block.
type Cache[T objects.Object] struct {
	resource schema.GroupVersionResource
	options  metav1.ListOptions

	mu          sync.RWMutex
	items       map[objects.Key]T
	byNamespace map[string]map[objects.Key]T
	indexes     map[string]*index[T]
	revision    uint64
	listeners   []func(Change[T])
	synced      chan struct{}
	once        sync.Once
}

type index[T objects.Object] struct {
	values func(T) []string
	items  map[string]map[objects.Key]T
}

// byOwner is the index that every cache has: the UID of the controlling owner.
const byOwner = "owner"

func newCache[T objects.Object](resource schema.GroupVersionResource, opts metav1.ListOptions) *Cache[T] {
	c := &Cache[T]{
		resource: resource, options: opts, items: map[objects.Key]T{}, byNamespace: map[string]map[objects.Key]T{},
		indexes: map[string]*index[T]{}, synced: make(chan struct{}),
	}
	c.Index(byOwner, func(obj T) []string {
		if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	return c
}

// Resource returns what the cache holds.
func (c *Cache[T]) Resource() schema.GroupVersionResource { return c.resource }

// Index adds an index before the caches run. An index that exists already stays.
func (c *Cache[T]) Index(name string, values func(T) []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.indexes[name]; !ok {
		c.indexes[name] = &index[T]{values: values, items: map[string]map[objects.Key]T{}}
	}
}

// Subscribe calls f for each change from now on, first (in one go, before Subscribe returns) for what is there already.
func (c *Cache[T]) Subscribe(f func(Change[T])) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obj := range c.items {
		f(Change[T]{New: obj, Revision: revisionOf(obj), Replay: true})
	}
	c.listeners = append(c.listeners, f)
}

// Get returns the object of key.
func (c *Cache[T]) Get(key objects.Key) (T, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	obj, ok := c.items[key]
	return obj, ok
}

// List returns the objects of a namespace ("": all) that selector (nil: everything) takes, in no order.
func (c *Cache[T]) List(namespace string, selector labels.Selector) []T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	from := c.items
	if namespace != "" {
		from = c.byNamespace[namespace]
	}
	out := make([]T, 0, len(from))
	for _, obj := range from {
		if selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj)
		}
	}
	return out
}

// By returns the objects under value in the named index, in no order.
func (c *Cache[T]) By(name, value string) []T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	under := c.indexes[name].items[value]
	out := make([]T, 0, len(under))
	for _, obj := range under {
		out = append(out, obj)
	}
	return out
}

// OwnedBy returns the objects whose controller has that UID, in no order.
func (c *Cache[T]) OwnedBy(uid types.UID) []T { return c.By(byOwner, string(uid)) }

// Revision returns how far the cache has come.
func (c *Cache[T]) Revision() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// Synced is closed once the first list is in.
func (c *Cache[T]) Synced() <-chan struct{} { return c.synced }

// Put shows obj in the cache before the watch brings it: what a writer has just had confirmed. An object that is older
// than what the cache has is ignored. Subscribers are told.
func (c *Cache[T]) Put(obj T) { c.apply(obj, false) }

func (c *Cache[T]) apply(obj T, replay bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyLocked(obj, replay)
}

func (c *Cache[T]) applyLocked(obj T, replay bool) {
	key, rev := keyOf(obj), revisionOf(obj)
	old, had := c.items[key]
	if had && rev <= revisionOf(old) && old.GetUID() == obj.GetUID() {
		return
	}
	c.set(key, old, had, obj, true)
	c.revision = max(c.revision, rev)
	c.tell(Change[T]{Old: old, New: obj, Revision: rev, Replay: replay})
}

func (c *Cache[T]) remove(obj T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, rev := keyOf(obj), revisionOf(obj)
	c.revision = max(c.revision, rev)
	old, had := c.items[key]
	if !had || revisionOf(old) > rev {
		return
	}
	c.set(key, old, true, obj, false)
	c.tell(Change[T]{Old: obj, Revision: rev})
}

// set replaces or (keep false) removes what key holds, in the map and in every index.
func (c *Cache[T]) set(key objects.Key, old T, had bool, obj T, keep bool) {
	if keep {
		c.items[key] = obj
		put(c.byNamespace, key.Namespace, key, obj)
	} else {
		delete(c.items, key)
		drop(c.byNamespace, key.Namespace, key)
	}
	for _, ix := range c.indexes {
		if had {
			for _, v := range ix.values(old) {
				drop(ix.items, v, key)
			}
		}
		if keep {
			for _, v := range ix.values(obj) {
				put(ix.items, v, key, obj)
			}
		}
	}
}

func put[T any](m map[string]map[objects.Key]T, value string, key objects.Key, obj T) {
	in := m[value]
	if in == nil {
		in = map[objects.Key]T{}
		m[value] = in
	}
	in[key] = obj
}

func drop[T any](m map[string]map[objects.Key]T, value string, key objects.Key) {
	delete(m[value], key)
	if len(m[value]) == 0 {
		delete(m, value)
	}
}

func (c *Cache[T]) tell(change Change[T]) {
	for _, f := range c.listeners {
		f(change)
	}
}

// replace makes the cache equal to a list taken at revision rev.
func (c *Cache[T]) replace(list []objects.Object, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := make(map[objects.Key]bool, len(list))
	for _, obj := range list {
		seen[keyOf(obj)] = true
		c.applyLocked(obj.(T), true)
	}
	for key, old := range c.items {
		if !seen[key] && revisionOf(old) <= rev {
			c.set(key, old, true, old, false)
			c.tell(Change[T]{Old: old, Revision: rev})
		}
	}
	c.revision = max(c.revision, rev)
	c.once.Do(func() { close(c.synced) })
}

// run lists and watches until ctx ends, and returns early, with the error, only when it has to list again.
func (c *Cache[T]) run(ctx context.Context, cl Client) error {
	list, err := cl.List(ctx, Target{Resource: c.resource}, c.options)
	if err != nil {
		return err
	}
	rev, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	c.replace(list.Items, rev)
	for ctx.Err() == nil {
		if err := c.follow(ctx, cl); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// follow makes one watch. A watch that merely ends returns nil: the next one goes on from there.
func (c *Cache[T]) follow(ctx context.Context, cl Client) error {
	opts := c.options
	opts.ResourceVersion = strconv.FormatUint(c.Revision(), 10)
	opts.AllowWatchBookmarks = true
	for ev, err := range cl.Watch(ctx, Target{Resource: c.resource}, opts) {
		if err != nil {
			return err
		}
		switch ev.Type {
		case watch.Added, watch.Modified:
			c.apply(ev.Object.(T), false)
		case watch.Deleted:
			c.remove(ev.Object.(T))
		case watch.Bookmark:
			c.mu.Lock()
			c.revision = max(c.revision, revisionOf(ev.Object))
			c.mu.Unlock()
		}
	}
	return nil
}

// expired reports whether err means that a watch must begin with a new list.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

func revisionOf(obj metav1.Object) uint64 {
	rev, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // a server's own number
	return rev
}
