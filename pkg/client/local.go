package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/mutation"
)

// local holds the objects that the Caches of one resource share, of any type.
type local struct {
	resource schema.GroupVersionResource
	options  metav1.ListOptions
	shrink   func(objects.Object) objects.Object // returns the part of an object that is kept; nil: all of it
	stop     func()                              // ends the watch; nil without one. Guarded by Caches.mu
	sorted   bool                                // lists are sorted by key, so that what follows from them can be repeated

	// order is held while a change is applied and subscribers are called, so that they get changes one at a time and in order.
	// It is locked before mu. mu is free during the calls: subscribers may read any cache.
	order     sync.Mutex
	listeners []func(Change[objects.Object])
	ended     bool                 // the cache takes no more changes
	dropped   map[types.UID]uint64 // revisions of objects dropped by Drop, until the watch delivers the deletion

	mu         sync.RWMutex
	items      map[objects.Key]objects.Object
	namespaces map[string]map[objects.Key]objects.Object
	indexes    map[*indexer]*index
	watched    uint64 // revision of the list and watch; Put and Drop are ahead of it
	shared     *mutation.Detector

	synced chan struct{}
	once   sync.Once
}

func newLocal(resource schema.GroupVersionResource, opts metav1.ListOptions) *local {
	return &local{
		resource: resource, options: opts, items: map[objects.Key]objects.Object{},
		namespaces: map[string]map[objects.Key]objects.Object{}, indexes: map[*indexer]*index{},
		dropped: map[types.UID]uint64{}, synced: make(chan struct{}), shared: mutation.New("client cache of " + resource.Resource),
	}
}

func (l *local) subscribe(f func(Change[objects.Object])) {
	l.order.Lock()
	defer l.order.Unlock()
	for _, obj := range l.list("", nil) {
		f(Change[objects.Object]{New: obj, Revision: objects.RevisionOf(obj), Replay: true})
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
	l.sort(out)
	return out
}

func (l *local) sort(list []objects.Object) {
	if l.sorted {
		slices.SortFunc(list, func(a, b objects.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
}

func (l *local) revision() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.watched
}

// put adds an object that a write returned. It ignores an object that is not newer than the watch: it may be deleted already.
func (l *local) put(obj objects.Object) {
	l.order.Lock()
	defer l.order.Unlock()
	obj = l.trim(obj)
	if _, gone := l.dropped[obj.GetUID()]; gone || l.ended || objects.RevisionOf(obj) <= l.revision() {
		return
	}
	l.notify(l.apply(obj, false, false))
}

// drop removes an object whose deletion a request confirmed. Until the watch delivers the deletion, its events of that object
// are older and are ignored.
func (l *local) drop(obj objects.Object) {
	l.order.Lock()
	defer l.order.Unlock()
	old, ok := l.get(keyOf(obj))
	if !ok || old.GetUID() != obj.GetUID() {
		return
	}
	l.dropped[obj.GetUID()] = max(objects.RevisionOf(old), objects.RevisionOf(obj))
	l.notify(l.remove(old, max(objects.RevisionOf(old), objects.RevisionOf(obj))))
}

// apply makes obj the current version of its key, unless it is older than the cached one and force is false. Callers hold
// order.
func (l *local) apply(obj objects.Object, replay, force bool) (Change[objects.Object], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, rev := keyOf(obj), objects.RevisionOf(obj)
	old, had := l.items[key]
	if had && !force && rev <= objects.RevisionOf(old) && old.GetUID() == obj.GetUID() {
		return Change[objects.Object]{}, false
	}
	l.set(key, old, obj)
	return Change[objects.Object]{Old: old, New: obj, Revision: rev, Replay: replay}, true
}

// remove removes the object with obj's key, unless it is newer than rev. Callers hold order.
func (l *local) remove(obj objects.Object, rev uint64) (Change[objects.Object], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(obj)
	old, had := l.items[key]
	if !had || objects.RevisionOf(old) > rev {
		return Change[objects.Object]{}, false
	}
	l.set(key, old, nil)
	last := obj
	if last.GetUID() != old.GetUID() {
		last = old
	}
	return Change[objects.Object]{Old: last, Revision: rev}, true
}

// set replaces old with obj in the map and in every index. Either may be nil. Callers hold mu.
func (l *local) set(key objects.Key, old, obj objects.Object) {
	l.shared.Drop(old)
	l.shared.Share(obj)
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

// notify calls the subscribers if ok. Callers hold order and not mu.
func (l *local) notify(ch Change[objects.Object], ok bool) {
	if !ok {
		return
	}
	for _, f := range l.listeners {
		f(ch)
	}
}

// observe applies an event of the watch.
func (l *local) observe(ev Event) {
	l.order.Lock()
	defer l.order.Unlock()
	if l.ended {
		return
	}
	ev.Object = l.trim(ev.Object)
	rev := objects.RevisionOf(ev.Object)
	l.mu.Lock()
	l.watched = max(l.watched, rev)
	l.mu.Unlock()
	switch ev.Type {
	case watch.Added, watch.Modified:
		if _, gone := l.dropped[ev.Object.GetUID()]; !gone {
			l.notify(l.apply(ev.Object, false, false))
		}
	case watch.Deleted:
		delete(l.dropped, ev.Object.GetUID())
		l.notify(l.remove(ev.Object, rev))
	}
}

// replace makes the cache equal to a list of revision rev. Newer objects from Put stay, unless the revision went back because
// the server has another store: then only the list counts.
func (l *local) replace(list []objects.Object, rev uint64) {
	l.order.Lock()
	defer l.order.Unlock()
	if l.ended {
		return
	}
	rewound := rev < l.revision()
	if rewound {
		clear(l.dropped)
	}
	seen := make(map[objects.Key]bool, len(list))
	var changes []Change[objects.Object]
	note := func(ch Change[objects.Object], ok bool) {
		if ok {
			changes = append(changes, ch)
		}
	}
	for _, obj := range list {
		obj = l.trim(obj)
		if at, gone := l.dropped[obj.GetUID()]; gone && objects.RevisionOf(obj) <= at {
			continue
		}
		seen[keyOf(obj)] = true
		note(l.apply(obj, true, rewound))
	}
	for _, old := range l.list("", nil) {
		if !seen[keyOf(old)] && (rewound || objects.RevisionOf(old) <= rev) {
			note(l.remove(old, max(rev, objects.RevisionOf(old))))
		}
	}
	for uid, at := range l.dropped {
		if at <= rev {
			delete(l.dropped, uid)
		}
	}
	l.mu.Lock()
	l.watched = rev
	l.mu.Unlock()
	for _, ch := range changes {
		l.notify(ch, true)
	}
	l.once.Do(func() { close(l.synced) })
}

// end stops all changes of the cache.
func (l *local) end() {
	l.order.Lock()
	defer l.order.Unlock()
	l.ended = true
	l.shared.Check()
	l.once.Do(func() { close(l.synced) }) // release waiting callers
}

// trim returns the part of an object that the cache keeps.
func (l *local) trim(obj objects.Object) objects.Object {
	if l.shrink == nil {
		return obj
	}
	return l.shrink(obj)
}

// fill replaces the cache's content with a list.
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

// follow applies the events of one watch from the cache's revision. It returns nil when the watch ends without an error.
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
