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

// informer holds the objects that the Caches of one resource share, of any type, and calls their subscribers, as client-go's
// SharedIndexInformer does.
type informer struct {
	resource  schema.GroupVersionResource
	options   metav1.ListOptions
	transform func(objects.Object) objects.Object // returns what is kept of an object; nil: all of it
	stop      func()                              // ends the watch; nil without one. Guarded by Caches.mu
	sorted    bool                                // lists are sorted by key, so that what follows from them can be repeated

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

func newInformer(resource schema.GroupVersionResource, opts metav1.ListOptions) *informer {
	return &informer{
		resource: resource, options: opts, items: map[objects.Key]objects.Object{},
		namespaces: map[string]map[objects.Key]objects.Object{}, indexes: map[*indexer]*index{},
		dropped: map[types.UID]uint64{}, synced: make(chan struct{}), shared: mutation.New("client cache of " + resource.Resource),
	}
}

func (i *informer) subscribe(f func(Change[objects.Object])) {
	i.order.Lock()
	defer i.order.Unlock()
	for _, obj := range i.list("", nil) {
		f(Change[objects.Object]{New: obj, Revision: objects.RevisionOf(obj), Replay: true})
	}
	i.listeners = append(i.listeners, f)
}

func (i *informer) get(key objects.Key) (objects.Object, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	obj, ok := i.items[key]
	return obj, ok
}

func (i *informer) list(namespace string, selector labels.Selector) []objects.Object {
	i.mu.RLock()
	defer i.mu.RUnlock()
	from := i.items
	if namespace != "" {
		from = i.namespaces[namespace]
	}
	out := make([]objects.Object, 0, len(from))
	for _, obj := range from {
		if selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels())) {
			out = append(out, obj)
		}
	}
	i.sort(out)
	return out
}

func (i *informer) sort(list []objects.Object) {
	if i.sorted {
		slices.SortFunc(list, func(a, b objects.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
}

func (i *informer) revision() uint64 {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.watched
}

// put adds an object that a write returned. It ignores an object that is not newer than the watch: it may be deleted already.
func (i *informer) put(obj objects.Object) {
	i.order.Lock()
	defer i.order.Unlock()
	obj = i.transformed(obj)
	if _, gone := i.dropped[obj.GetUID()]; gone || i.ended || objects.RevisionOf(obj) <= i.revision() {
		return
	}
	i.notify(i.apply(obj, false, false))
}

// drop removes an object whose deletion a request confirmed. Until the watch delivers the deletion, its events of that object
// are older and are ignored.
func (i *informer) drop(obj objects.Object) {
	i.order.Lock()
	defer i.order.Unlock()
	old, ok := i.get(keyOf(obj))
	if !ok || old.GetUID() != obj.GetUID() {
		return
	}
	i.dropped[obj.GetUID()] = max(objects.RevisionOf(old), objects.RevisionOf(obj))
	i.notify(i.remove(old, max(objects.RevisionOf(old), objects.RevisionOf(obj))))
}

// apply makes obj the current version of its key, unless it is older than the cached one and force is false. Callers hold
// order.
func (i *informer) apply(obj objects.Object, replay, force bool) (Change[objects.Object], bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key, rev := keyOf(obj), objects.RevisionOf(obj)
	old, had := i.items[key]
	if had && !force && rev <= objects.RevisionOf(old) && old.GetUID() == obj.GetUID() {
		return Change[objects.Object]{}, false
	}
	i.set(key, old, obj)
	return Change[objects.Object]{Old: old, New: obj, Revision: rev, Replay: replay}, true
}

// remove removes the object with obj's key, unless it is newer than rev. Callers hold order.
func (i *informer) remove(obj objects.Object, rev uint64) (Change[objects.Object], bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := keyOf(obj)
	old, had := i.items[key]
	if !had || objects.RevisionOf(old) > rev {
		return Change[objects.Object]{}, false
	}
	i.set(key, old, nil)
	last := obj
	if last.GetUID() != old.GetUID() {
		last = old
	}
	return Change[objects.Object]{Old: last, Revision: rev}, true
}

// set replaces old with obj in the map and in every index. Either may be nil. Callers hold mu.
func (i *informer) set(key objects.Key, old, obj objects.Object) {
	i.shared.Drop(old)
	i.shared.Share(obj)
	if obj != nil {
		i.items[key] = obj
		put(i.namespaces, key.Namespace, key, obj)
	} else {
		delete(i.items, key)
		drop(i.namespaces, key.Namespace, key)
	}
	for _, ix := range i.indexes {
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
func (i *informer) notify(ch Change[objects.Object], ok bool) {
	if !ok {
		return
	}
	for _, f := range i.listeners {
		f(ch)
	}
}

// observe applies an event of the watch.
func (i *informer) observe(ev Event) {
	i.order.Lock()
	defer i.order.Unlock()
	if i.ended {
		return
	}
	ev.Object = i.transformed(ev.Object)
	rev := objects.RevisionOf(ev.Object)
	i.mu.Lock()
	i.watched = max(i.watched, rev)
	i.mu.Unlock()
	switch ev.Type {
	case watch.Added, watch.Modified:
		if _, gone := i.dropped[ev.Object.GetUID()]; !gone {
			i.notify(i.apply(ev.Object, false, false))
		}
	case watch.Deleted:
		delete(i.dropped, ev.Object.GetUID())
		i.notify(i.remove(ev.Object, rev))
	}
}

// replace makes the cache equal to a list of revision rev. Newer objects from Put stay, unless the revision went back because
// the server has another store: then only the list counts.
func (i *informer) replace(list []objects.Object, rev uint64) {
	i.order.Lock()
	defer i.order.Unlock()
	if i.ended {
		return
	}
	rewound := rev < i.revision()
	if rewound {
		clear(i.dropped)
	}
	seen := make(map[objects.Key]bool, len(list))
	var changes []Change[objects.Object]
	note := func(ch Change[objects.Object], ok bool) {
		if ok {
			changes = append(changes, ch)
		}
	}
	for _, obj := range list {
		obj = i.transformed(obj)
		if at, gone := i.dropped[obj.GetUID()]; gone && objects.RevisionOf(obj) <= at {
			continue
		}
		seen[keyOf(obj)] = true
		note(i.apply(obj, true, rewound))
	}
	for _, old := range i.list("", nil) {
		if !seen[keyOf(old)] && (rewound || objects.RevisionOf(old) <= rev) {
			note(i.remove(old, max(rev, objects.RevisionOf(old))))
		}
	}
	for uid, at := range i.dropped {
		if at <= rev {
			delete(i.dropped, uid)
		}
	}
	i.mu.Lock()
	i.watched = rev
	i.mu.Unlock()
	for _, ch := range changes {
		i.notify(ch, true)
	}
	i.once.Do(func() { close(i.synced) })
}

// end stops all changes of the cache.
func (i *informer) end() {
	i.order.Lock()
	defer i.order.Unlock()
	i.ended = true
	i.shared.Check()
	i.once.Do(func() { close(i.synced) }) // release waiting callers
}

// transformed returns what the cache keeps of an object.
func (i *informer) transformed(obj objects.Object) objects.Object {
	if i.transform == nil {
		return obj
	}
	return i.transform(obj)
}

// relist replaces the content with a list.
func (i *informer) relist(ctx context.Context, cl Client) error {
	list, err := cl.List(ctx, Target{Resource: i.resource}, i.options)
	if err != nil {
		return err
	}
	rev, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("list of %s: resourceVersion: %w", i.resource.Resource, err)
	}
	i.replace(list.Items, rev)
	return nil
}

// watch applies the events of one watch from the cache's revision. It returns nil when the watch ends without an error.
func (i *informer) watch(ctx context.Context, cl Client) error {
	opts := i.options
	opts.ResourceVersion = strconv.FormatUint(i.revision(), 10)
	opts.AllowWatchBookmarks = true
	for ev, err := range cl.Watch(ctx, Target{Resource: i.resource}, opts) {
		if err != nil {
			return err
		}
		i.observe(ev)
	}
	return nil
}

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
