package client

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/objects"
)

// local is the copy that Caches of any type are views of.
type local struct {
	resource schema.GroupVersionResource
	options  metav1.ListOptions
	shrink   func(objects.Object) objects.Object // what is kept of an object; nil: all of it
	stop     func()                              // ends the watch; nil while there is none. It is the Caches' to set and call

	// order is held while a change is made and told, so that subscribers hear of changes one at a time and in order.
	// It is taken before mu, which is free while they are called: they may look into any cache.
	order     sync.Mutex
	listeners []func(Change[objects.Object])
	over      bool                 // nothing is taken in any more
	gone      map[types.UID]uint64 // dropped by Drop, and not yet by the watch

	mu         sync.RWMutex
	items      map[objects.Key]objects.Object
	namespaces map[string]map[objects.Key]objects.Object
	indexes    map[*indexer]*index
	watched    uint64 // how far list and watch have come; Put and Drop run ahead of it

	synced chan struct{}
	once   sync.Once
}

func newLocal(resource schema.GroupVersionResource, opts metav1.ListOptions) *local {
	return &local{
		resource: resource, options: opts, items: map[objects.Key]objects.Object{},
		namespaces: map[string]map[objects.Key]objects.Object{}, indexes: map[*indexer]*index{},
		gone: map[types.UID]uint64{}, synced: make(chan struct{}),
	}
}

func (l *local) subscribe(f func(Change[objects.Object])) {
	l.order.Lock()
	defer l.order.Unlock()
	for _, obj := range l.list("", nil) {
		f(Change[objects.Object]{New: obj, Revision: revisionOf(obj), Replay: true})
	}
	l.listeners = append(l.listeners, f)
}

func (l *local) get(key objects.Key) (objects.Object, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	obj, ok := l.items[key]
	return obj, ok
}

func (l *local) list(namespace string, selector labels.Selector) []objects.Object {
	l.mu.RLock()
	defer l.mu.RUnlock()
	from := l.items
	if namespace != "" {
		from = l.namespaces[namespace]
	}
	out := make([]objects.Object, 0, len(from))
	for _, obj := range from {
		if selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj)
		}
	}
	return out
}

func (l *local) revision() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.watched
}

// put shows what a writer has just had confirmed. What the watch has passed already is not looked at: the object may
// have been deleted since.
func (l *local) put(obj objects.Object) {
	l.order.Lock()
	defer l.order.Unlock()
	obj = l.kept(obj)
	if _, gone := l.gone[obj.GetUID()]; gone || l.over || revisionOf(obj) <= l.revision() {
		return
	}
	l.tell(l.apply(obj, false, false))
}

// drop hides what a deleter has just had confirmed to be gone, until the watch says so too: what the watch still brings
// of that object is older.
func (l *local) drop(obj objects.Object) {
	l.order.Lock()
	defer l.order.Unlock()
	old, ok := l.get(keyOf(obj))
	if !ok || old.GetUID() != obj.GetUID() {
		return
	}
	l.gone[obj.GetUID()] = max(revisionOf(old), revisionOf(obj))
	l.tell(l.remove(old, max(revisionOf(old), revisionOf(obj))))
}

// apply makes obj the current version of its key, unless it is older than what is there and not forced. Callers hold
// order.
func (l *local) apply(obj objects.Object, replay, force bool) (Change[objects.Object], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, rev := keyOf(obj), revisionOf(obj)
	old, had := l.items[key]
	if had && !force && rev <= revisionOf(old) && old.GetUID() == obj.GetUID() {
		return Change[objects.Object]{}, false
	}
	l.set(key, old, obj)
	return Change[objects.Object]{Old: old, New: obj, Revision: rev, Replay: replay}, true
}

// remove takes obj's key away, unless what is there is newer than rev. Callers hold order.
func (l *local) remove(obj objects.Object, rev uint64) (Change[objects.Object], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(obj)
	old, had := l.items[key]
	if !had || revisionOf(old) > rev {
		return Change[objects.Object]{}, false
	}
	l.set(key, old, nil)
	last := obj
	if last.GetUID() != old.GetUID() {
		last = old
	}
	return Change[objects.Object]{Old: last, Revision: rev}, true
}

// set replaces old by obj, in the map and in every index; either may be nil. Callers hold mu.
func (l *local) set(key objects.Key, old, obj objects.Object) {
	if obj != nil {
		l.items[key] = obj
		put(l.namespaces, key.Namespace, key, obj)
	} else {
		delete(l.items, key)
		drop(l.namespaces, key.Namespace, key)
	}
	for _, ix := range l.indexes {
		if old != nil {
			for _, v := range ix.values(old) {
				drop(ix.items, v, key)
			}
		}
		if obj != nil {
			for _, v := range ix.values(obj) {
				put(ix.items, v, key, obj)
			}
		}
	}
}

func put(m map[string]map[objects.Key]objects.Object, value string, key objects.Key, obj objects.Object) {
	in := m[value]
	if in == nil {
		in = map[objects.Key]objects.Object{}
		m[value] = in
	}
	in[key] = obj
}

func drop(m map[string]map[objects.Key]objects.Object, value string, key objects.Key) {
	delete(m[value], key)
	if len(m[value]) == 0 {
		delete(m, value)
	}
}

// tell calls the subscribers. Callers hold order and not mu.
func (l *local) tell(ch Change[objects.Object], ok bool) {
	if !ok {
		return
	}
	for _, f := range l.listeners {
		f(ch)
	}
}

// observe takes in one event of the watch.
func (l *local) observe(ev Event) {
	l.order.Lock()
	defer l.order.Unlock()
	if l.over {
		return
	}
	ev.Object = l.kept(ev.Object)
	rev := revisionOf(ev.Object)
	l.mu.Lock()
	l.watched = max(l.watched, rev)
	l.mu.Unlock()
	switch ev.Type {
	case watch.Added, watch.Modified:
		if _, gone := l.gone[ev.Object.GetUID()]; !gone {
			l.tell(l.apply(ev.Object, false, false))
		}
	case watch.Deleted:
		delete(l.gone, ev.Object.GetUID())
		l.tell(l.remove(ev.Object, rev))
	}
}

// replace makes the cache equal to a list taken at revision rev. What writers confirmed after it stays, unless the
// server's history went back (another store): then the list is all there is.
func (l *local) replace(list []objects.Object, rev uint64) {
	l.order.Lock()
	defer l.order.Unlock()
	if l.over {
		return
	}
	rewound := rev < l.revision()
	if rewound {
		clear(l.gone)
	}
	seen := make(map[objects.Key]bool, len(list))
	var changes []Change[objects.Object]
	note := func(ch Change[objects.Object], ok bool) {
		if ok {
			changes = append(changes, ch)
		}
	}
	for _, obj := range list {
		obj = l.kept(obj)
		if at, gone := l.gone[obj.GetUID()]; gone && revisionOf(obj) <= at {
			continue
		}
		seen[keyOf(obj)] = true
		note(l.apply(obj, true, rewound))
	}
	for _, old := range l.list("", nil) {
		if !seen[keyOf(old)] && (rewound || revisionOf(old) <= rev) {
			note(l.remove(old, max(rev, revisionOf(old))))
		}
	}
	for uid, at := range l.gone {
		if at <= rev {
			delete(l.gone, uid)
		}
	}
	l.mu.Lock()
	l.watched = rev
	l.mu.Unlock()
	for _, ch := range changes {
		l.tell(ch, true)
	}
	l.once.Do(func() { close(l.synced) })
}

// end leaves the cache as it is for good.
func (l *local) end() {
	l.order.Lock()
	defer l.order.Unlock()
	l.over = true
	l.once.Do(func() { close(l.synced) }) // nobody waits for it any more
}

// kept returns what the cache keeps of an object.
func (l *local) kept(obj objects.Object) objects.Object {
	if l.shrink == nil {
		return obj
	}
	return l.shrink(obj)
}

// fill lists.
func (l *local) fill(ctx context.Context, cl Client) error {
	list, err := cl.List(ctx, Target{Resource: l.resource}, l.options)
	if err != nil {
		return err
	}
	rev, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("list of %s: resourceVersion: %w", l.resource.Resource, err)
	}
	l.replace(list.Items, rev)
	return nil
}

// follow makes one watch, from where the cache is. A watch that merely ends returns nil.
func (l *local) follow(ctx context.Context, cl Client) error {
	opts := l.options
	opts.ResourceVersion = strconv.FormatUint(l.revision(), 10)
	opts.AllowWatchBookmarks = true
	for ev, err := range cl.Watch(ctx, Target{Resource: l.resource}, opts) {
		if err != nil {
			return err
		}
		l.observe(ev)
	}
	return nil
}

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func revisionOf(obj metav1.Object) uint64 {
	rev, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // a server's own number
	return rev
}
