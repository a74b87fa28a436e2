package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/google/btree"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

const (
	treeDegree = 32
	logLimit   = 8 << 20 // stored bytes of one table's recent events
	fillPage   = 1000
)

// Table is one resource's current objects and recent changes. It is safe for concurrent use.
type Table struct {
	cache    *Cache
	resource *objects.Resource
	prefix   string
	ended    chan struct{} // closed when the cache holds it no longer
	full     atomic.Bool   // filled: nothing to wait for
	changes  atomic.Uint64 // how often the tree has changed
	objects  atomic.Int64  // of the objects in it

	mu       sync.Mutex
	filling  chan struct{}  // not nil while somebody fills the table; closed at the end
	gap      bool           // the backlog misses changes: what is being filled must be filled again
	backlog  []store.Event  // what came meanwhile
	revision store.Revision // the tree shows everything up to here; Cache.Revision may be further
	tree     *btree.BTreeG[*Item]
	indexes  map[string]index // by selectable field
	log      log
	lanes    map[lane]*laneLog
}

func byPath(a, b *Item) bool { return a.path < b.path }

func newTable(c *Cache, r *objects.Resource, prefix string) *Table {
	return &Table{cache: c, resource: r, prefix: prefix, ended: make(chan struct{}), log: newLog(0, logLimit), lanes: map[lane]*laneLog{}}
}

// Resource returns what the table holds.
func (t *Table) Resource() *objects.Resource { return t.resource }

// StoreKey returns the key of an object in the store.
func (t *Table) StoreKey(key objects.Key) string { return t.prefix + pathOf(key) }

// ErrReplaced means that a resource is no longer what it was when the request came in: its definition has changed.
var ErrReplaced = errors.New("the resource's definition has changed")

// over reports whether the table is the cache's no longer.
func (t *Table) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// ready returns once the table is filled.
func (t *Table) ready(ctx context.Context) error {
	for !t.full.Load() {
		t.mu.Lock()
		if t.full.Load() {
			t.mu.Unlock()
			return nil
		}
		if t.over() { // under the lock: finish, which comes after, sees whoever begins to fill the table before
			t.mu.Unlock()
			return ErrReplaced
		}
		if wait := t.filling; wait != nil {
			t.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		t.filling = make(chan struct{})
		t.mu.Unlock()
		if err := t.fill(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// fill reads the table at one revision. What the feed brings meanwhile waits in the backlog.
func (t *Table) fill(ctx context.Context) error {
	tree, revision, err := t.load(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	backlog, gap := t.backlog, t.gap
	t.backlog, t.gap = nil, false
	close(t.filling)
	t.filling = nil
	if err != nil {
		return fmt.Errorf("read %s: %w", t.prefix, err)
	}
	if gap {
		return nil // ready tries again
	}
	t.tree, t.revision, t.log = tree, revision, newLog(revision, logLimit)
	t.buildIndexes()
	t.applyLocked(backlog)
	t.changed()
	t.full.Store(true)
	return nil
}

func (t *Table) load(ctx context.Context) (*btree.BTreeG[*Item], store.Revision, error) {
	tree := btree.NewG(treeDegree, byPath)
	opts := store.ListOptions{Limit: fillPage}
	for {
		page, err := t.cache.store.List(ctx, t.prefix, opts)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page.Entries {
			tree.ReplaceOrInsert(t.newItem(e.Key[len(t.prefix):], e.Modified, e.Value))
		}
		opts.At = page.Revision
		if !page.More {
			return tree, page.Revision, nil
		}
		opts.After = page.Entries[len(page.Entries)-1].Key
	}
}

// empty forgets everything, as before the first use: changes have been missed.
func (t *Table) empty() { t.reset((*log).end) }

// finish empties the table for good. Watches go on to the last change.
func (t *Table) finish() { t.reset((*log).finish) }

func (t *Table) reset(end func(*log)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap = t.filling != nil
	t.full.Store(false)
	end(&t.log)
	t.log = newLog(0, logLimit)
	t.endLanes(end)
	t.tree, t.indexes, t.revision = nil, nil, 0
}

// apply takes over changes of this table, in order. It alone changes what is in the table.
func (t *Table) apply(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.full.Load():
		t.applyLocked(events)
	case t.filling != nil:
		t.cache.settle(events)
		t.backlog = append(t.backlog, events...)
	default:
		t.cache.settle(events)
	}
}

func (t *Table) applyLocked(events []store.Event) {
	changes := make([]event, 0, len(events))
	for i := range events {
		if events[i].Revision <= t.revision {
			t.cache.settle(events[i : i+1]) // the fill has seen it
			continue
		}
		if ev, ok := t.change(&events[i]); ok {
			changes = append(changes, ev)
		}
		t.revision = events[i].Revision
	}
	if len(changes) > 0 {
		t.changed()
		t.log.append(changes)
		t.appendLanes(changes)
	}
}

func (t *Table) change(ev *store.Event) (event, bool) {
	path := ev.Key[len(t.prefix):]
	out := event{revision: ev.Revision}
	if ev.Value == nil {
		before, ok := t.tree.Delete(&Item{path: path})
		if !ok {
			return event{}, false
		}
		out.before, out.gone = before, before.At(ev.Revision)
	} else {
		out.now = t.item(path, ev)
		if before, ok := t.tree.ReplaceOrInsert(out.now); ok {
			out.before = before
		}
	}
	t.updateIndexes(out.before, out.now)
	return out, true
}

func (t *Table) item(path string, ev *store.Event) *Item {
	p := t.cache.pending(ev)
	if p == nil {
		return t.newItem(path, ev.Revision, ev.Value)
	}
	if p.Object.GetResourceVersion() == "" {
		p.Object.SetResourceVersion(formatRevision(ev.Revision))
	}
	i := NewItem(keyOf(path), ev.Revision, p.Object)
	i.path, i.size, i.sum, i.kept = path, len(ev.Value), sumOf(ev.Value), t.cache.kept
	if !t.resource.Undecoded {
		p.item.Store(i)
		return i
	}
	held := t.newItem(path, ev.Revision, ev.Value) // the writer's answer keeps the object, the table does not
	held.plain, held.writers = t.resource.Custom(), weak.Make(i)
	i.value, i.plain, i.kept = held.value, held.plain, nil
	p.item.Store(i)
	return held
}

// Get returns the current item of key, as far as the feed has come.
func (t *Table) Get(ctx context.Context, key objects.Key) (*Item, bool, error) {
	if err := t.ready(ctx); err != nil {
		return nil, false, err
	}
	probe := Item{path: pathOf(key)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tree == nil {
		return nil, false, nil
	}
	i, ok := t.tree.Get(&probe)
	return i, ok, nil
}

// changed notes that the tree is another.
func (t *Table) changed() {
	t.objects.Store(int64(t.tree.Len()))
	t.changes.Add(1)
}

// State returns a number that grows with every change of the table, and how many objects it holds, as far as the feed has
// come.
func (t *Table) State(ctx context.Context) (changes uint64, count int, err error) {
	if !t.full.Load() {
		if err := t.ready(ctx); err != nil {
			return 0, 0, err
		}
	}
	return t.changes.Load(), int(t.objects.Load()), nil
}

// snapshot is a table at one revision.
type snapshot struct {
	tree     *btree.BTreeG[*Item]
	revision store.Revision
	last     *segment // the position in the log from which to read on
}

func (t *Table) snapshot(ctx context.Context) (snapshot, error) {
	for {
		if err := t.ready(ctx); err != nil {
			return snapshot{}, err
		}
		reached := t.cache.Revision() // before the lock: what was reached is in the tree
		t.mu.Lock()
		if t.tree == nil {
			t.mu.Unlock()
			continue
		}
		s := snapshot{t.tree.Clone(), max(t.revision, reached), t.log.last}
		t.mu.Unlock()
		return s, nil
	}
}

// ascend calls yield for the items of a namespace ("": all) in key order, from the first path above after.
func (s snapshot) ascend(namespace, after string, yield func(*Item) bool) {
	from := after
	if namespace != "" {
		if low := namespace + "/"; from < low {
			from = low
		}
		high := &Item{path: namespace + "0"} // '0' follows '/'
		s.tree.AscendRange(&Item{path: from}, high, skip(after, yield))
		return
	}
	s.tree.AscendGreaterOrEqual(&Item{path: from}, skip(after, yield))
}

func skip(after string, yield func(*Item) bool) func(*Item) bool {
	return func(i *Item) bool { return i.path == after || yield(i) }
}

// All returns the current items of a namespace ("": all), as far as the feed has come.
func (t *Table) All(ctx context.Context, namespace string) ([]*Item, error) {
	s, err := t.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var out []*Item
	if namespace == "" {
		out = make([]*Item, 0, s.tree.Len())
	}
	s.ascend(namespace, "", func(i *Item) bool {
		out = append(out, i)
		return true
	})
	return slices.Clip(out), nil
}
