package bootstrap

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/store"
)

// virtualRevision is the resourceVersion of a default that is not stored. It is that of the store's first write, which
// is no API object.
const virtualRevision store.Revision = 1

// Store shows the defaults of a cluster as entries of the store below it, until something writes them. Reads never
// write. The first write of a default stores it; a delete stores it and then deletes it, so that watches see the change.
type Store struct {
	store.Store
	groups map[string]*group // by key prefix
}

// group is the defaults of one resource.
type group struct {
	prefix  string
	make    func(context.Context) (map[string][]byte, error) // the defaults by key, encoded
	read    func()                                           // called when the defaults are made; nil: nothing
	only    string                                           // the key of the only default; "": there may be any
	checked atomic.Bool                                      // the store was checked once for objects of the resource
	touched atomic.Bool                                      // an object of the resource is stored, or was written

	mu     sync.Mutex
	keys   []string // sorted; nil: not made yet
	values map[string][]byte
	// stored maps each default that a write has stored to the revision of that write. From this revision on, only the
	// store determines whether the object exists.
	stored map[string]store.Revision
	// writes holds the defaults that a write is about to store. The channel is closed when that write has ended.
	writes map[string]chan struct{}
}

// newStore returns the store without defaults.
func newStore(s store.Store) *Store { return &Store{Store: s, groups: map[string]*group{}} }

// add adds the defaults of a resource. It is called before the store is used.
func (s *Store) add(gr schema.GroupResource, read func(), make func(context.Context) (map[string][]byte, error)) {
	prefix := cache.Prefix(gr)
	s.groups[prefix] = &group{prefix: prefix, make: make, read: read, stored: map[string]store.Revision{}, writes: map[string]chan struct{}{}}
}

// of returns the defaults to which a key belongs; nil when the key's resource has none.
func (s *Store) of(key string) *group { return s.groups[cache.PrefixOf(key)] }

// load makes the defaults at the first call.
func (g *group) load(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys != nil {
		return nil
	}
	values, err := g.make(ctx)
	if err != nil {
		return err
	}
	g.values, g.keys = values, slices.Sorted(maps.Keys(values))
	if g.keys == nil {
		g.keys = []string{}
	}
	if g.read != nil {
		g.read()
	}
	return nil
}

// made reports whether a client has read the defaults.
func (g *group) made() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.keys != nil
}

// value returns the default with a key as of a revision (0: now). It returns false if there is none, or if the object was written to
// the store by then: from that write on, the object is the store's.
func (g *group) value(key string, at store.Revision) ([]byte, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.valueLocked(key, at)
}

func (g *group) valueLocked(key string, at store.Revision) ([]byte, bool) {
	value, ok := g.values[key]
	if since := g.stored[key]; since != 0 && (at == 0 || at >= since) {
		return nil, false
	}
	return value, ok
}

// beginWrite returns once no other write is about to store a default. The caller calls end after its own write; end is
// nil if there is no default any more: then the store orders the writes.
func (g *group) beginWrite(ctx context.Context, key string) (end func(), err error) {
	for {
		g.mu.Lock()
		if _, ok := g.valueLocked(key, 0); !ok {
			g.mu.Unlock()
			return nil, nil
		}
		other, busy := g.writes[key]
		if !busy {
			done := make(chan struct{})
			g.writes[key] = done
			g.mu.Unlock()
			return func() { g.endWrite(key, done) }, nil
		}
		g.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (g *group) endWrite(key string, done chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.writes, key)
	close(done)
}

// setStored records that from revision on only the store determines whether the object exists.
func (g *group) setStored(key string, revision store.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.values[key]; ok && g.stored[key] == 0 {
		g.stored[key] = revision
	}
}

func entryOf(key string, value []byte) store.Entry {
	return store.Entry{Key: key, Value: value, Created: virtualRevision, Modified: virtualRevision}
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, at store.Revision) (store.Entry, error) {
	e, err := s.Store.Get(ctx, key, at)
	g := s.of(key)
	if g == nil || !errors.Is(err, store.ErrNotFound) {
		return e, err
	}
	if err := g.load(ctx); err != nil {
		return store.Entry{}, err
	}
	if value, ok := g.value(key, at); ok {
		return entryOf(key, value), nil
	}
	return e, err
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	var groups []*group
	for p, g := range s.groups {
		if strings.HasPrefix(p, prefix) || strings.HasPrefix(prefix, p) {
			if err := g.load(ctx); err != nil {
				return store.Page{}, err
			}
			groups = append(groups, g)
		}
	}
	page, err := s.Store.List(ctx, prefix, opts)
	if err != nil || len(groups) == 0 {
		return page, err
	}
	return merge(page, groups, prefix, opts), nil
}

// merge adds the defaults that the store does not have to a page of it.
func merge(page store.Page, groups []*group, prefix string, opts store.ListOptions) store.Page {
	last := "" // the end of what the page covers; "": all
	if page.More {
		last = page.Entries[len(page.Entries)-1].Key
	}
	var more []store.Entry
	for _, g := range groups {
		more = g.appendMissing(more, page, prefix, opts.After, last)
	}
	if len(more) == 0 {
		return page
	}
	entries := slices.Concat(page.Entries, more)
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	if opts.Limit > 0 && len(entries) > opts.Limit {
		entries, page.More = entries[:opts.Limit:opts.Limit], true
	}
	page.Entries = entries
	return page
}

// appendMissing appends the defaults with a prefix, after one key and up to another, that a page does not have.
func (g *group) appendMissing(list []store.Entry, page store.Page, prefix, after, last string) []store.Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range g.keys {
		if !strings.HasPrefix(key, prefix) || key <= after || last != "" && key > last {
			continue
		}
		_, there := slices.BinarySearchFunc(page.Entries, key, func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
		if there {
			continue
		}
		if value, ok := g.valueLocked(key, page.Revision); ok {
			list = append(list, entryOf(key, value))
		}
	}
	return list
}

// Write implements store.Store. Writes of the same default follow each other until the default is stored: otherwise an update
// could find a default, and be applied after a delete has removed it.
func (s *Store) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	var defaults []*store.Op
	for i := range ops {
		if s.of(ops[i].Key) == nil {
			continue
		}
		if defaults == nil {
			ops = slices.Clone(ops)
		}
		defaults = append(defaults, &ops[i])
	}
	// Batches with several keys wait for them in the same order.
	slices.SortFunc(defaults, func(a, b *store.Op) int { return strings.Compare(a.Key, b.Key) })
	for _, op := range defaults {
		end, err := s.resolve(ctx, s.of(op.Key), op)
		if end != nil {
			defer end()
		}
		if err != nil {
			return nil, err
		}
	}
	return s.Store.Write(ctx, ops...)
}

// resolve turns a change of a default, which may not be stored, into the change to make in the inner store. The caller
// calls end, unless it is nil, after the write.
func (s *Store) resolve(ctx context.Context, g *group, op *store.Op) (end func(), err error) {
	g.touched.Store(true)
	if g.only != "" && op.Key != g.only {
		return nil, nil
	}
	if err := g.load(ctx); err != nil {
		return nil, err
	}
	if end, err = g.beginWrite(ctx, op.Key); end == nil {
		return nil, err
	}
	return end, s.resolveDefault(ctx, g, op)
}

func (s *Store) resolveDefault(ctx context.Context, g *group, op *store.Op) error {
	value, ok := g.value(op.Key, 0)
	if !ok {
		return nil
	}
	switch e, err := s.Store.Get(ctx, op.Key, 0); {
	case err == nil:
		g.setStored(op.Key, e.Created)
		return nil
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if !op.Expect.Holds(virtualRevision) {
		return &store.Conflict{Key: op.Key, Current: virtualRevision}
	}
	if op.Value != nil {
		op.Expect = store.Absent()
		return nil
	}
	revisions, err := s.Store.Write(ctx, store.Op{Key: op.Key, Value: value, Expect: store.Absent()})
	if err != nil {
		return err
	}
	g.setStored(op.Key, revisions[0])
	op.Expect = store.At(revisions[0])
	return nil
}

// Watch implements store.Store. The write that stores a default is a change of that default.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for batch, err := range s.Store.Watch(ctx, prefix, from) {
			if !yield(s.changes(batch), err) {
				return
			}
		}
	}
}

// changes returns a batch of the inner store in which a write that stores a default has the default as the previous
// value.
func (s *Store) changes(batch store.Batch) store.Batch {
	copied := false
	for i := range batch.Events {
		ev := &batch.Events[i]
		g := s.of(ev.Key)
		if g == nil {
			continue
		}
		g.touched.Store(true)
		if ev.Value == nil || ev.Prev != nil {
			continue
		}
		if value, ok := g.value(ev.Key, ev.Revision-1); ok {
			if !copied {
				batch.Events, copied = slices.Clone(batch.Events), true
			}
			batch.Events[i].Prev, batch.Events[i].PrevRev = value, virtualRevision
		}
	}
	return batch
}

// storeMissing stores the defaults of some resources that are not stored yet, in one batch.
func (s *Store) storeMissing(ctx context.Context, resources ...schema.GroupResource) error {
	var ops []store.Op
	for _, gr := range resources {
		g := s.groups[cache.Prefix(gr)]
		if g == nil {
			continue
		}
		if err := g.load(ctx); err != nil {
			return err
		}
		for _, key := range g.keys {
			if _, err := s.Store.Get(ctx, key, 0); errors.Is(err, store.ErrNotFound) {
				value, ok := g.value(key, 0)
				if ok {
					ops = append(ops, store.Op{Key: key, Value: value, Expect: store.Absent()})
				}
			} else if err != nil {
				return err
			}
		}
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := s.Store.Write(ctx, ops...)
	return err
}

// isStored reports whether the store holds any object of a resource, or did since the server's start.
func (s *Store) isStored(ctx context.Context, gr schema.GroupResource) (bool, error) {
	g := s.groups[cache.Prefix(gr)]
	if g == nil {
		return false, nil
	}
	if g.checked.Load() || g.touched.Load() {
		return g.touched.Load(), nil
	}
	page, err := s.Store.List(ctx, g.prefix, store.ListOptions{Limit: 1})
	if err != nil {
		return false, err
	}
	if len(page.Entries) > 0 {
		g.touched.Store(true)
	}
	g.checked.Store(true)
	return g.touched.Load(), nil
}
