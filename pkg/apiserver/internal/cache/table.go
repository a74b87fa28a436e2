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
	"github.com/minikctl/minikctl/pkg/objects/mutation"
	"github.com/minikctl/minikctl/pkg/store"
)

const (
	treeDegree = 32
	fillPage   = 1000    // entries per read of the store
	fillBytes  = 4 << 20 // at which a read of values ends
)

// Table is one resource's current objects and recent changes. It is safe for concurrent use.
type Table struct {
	cache    *Cache
	resource *objects.Resource
	prefix   string
	removed  chan struct{} // closed when the table is removed from the cache
	full     atomic.Bool   // the tree is filled
	version  atomic.Uint64 // grows with every change of the tree
	objects  atomic.Int64  // number of objects in the tree
	bytes    atomic.Int64  // the sum of their Bytes

	mu       sync.Mutex
	filling  chan struct{}  // not nil while a request fills the table; closed when it ends
	gap      bool           // the backlog misses changes, so the table must be filled again
	backlog  []store.Event  // the changes since filling began
	revision store.Revision // the tree has everything up to it; Cache.Revision may be higher
	tree     *btree.BTreeG[*Item]
	indexes  map[string]index // by selectable field
	log      *changes
	lanes    map[lane]*laneLog
	corrupt  map[string]*Corrupt // by path: the stored values that are not in the tree
	shared   *mutation.Detector
}

func byPath(a, b *Item) bool { return a.path < b.path }

func newTable(c *Cache, r *objects.Resource, prefix string) *Table {
	t := &Table{cache: c, resource: r, prefix: prefix, removed: make(chan struct{}), lanes: map[lane]*laneLog{},
		shared: mutation.New("API server's cache of " + prefix)}
	t.log = t.newLog(0)
	return t
}

// Resource returns the resource of the table.
func (t *Table) Resource() *objects.Resource { return t.resource }

// StoreKey returns the key of an object in the store.
func (t *Table) StoreKey(key objects.Key) string { return t.prefix + pathOf(key) }

// ErrReplaced means that the table was removed: the definition of its resource has changed during the request.
var ErrReplaced = errors.New("the resource's definition has changed")

// isRemoved reports whether the table was removed from the cache.
func (t *Table) isRemoved() bool {
	select {
	case <-t.removed:
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
		if t.isRemoved() { // checked under the lock, so that a later finish sees the fill
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

// fill reads the table at one revision. Meanwhile the feed adds changes to the backlog.
func (t *Table) fill(ctx context.Context) error {
	tree, corrupt, revision, err := t.load(ctx)
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
		return nil // ready retries
	}
	t.tree, t.revision, t.log = tree, revision, t.newLog(revision)
	t.setCorrupt(corrupt)
	t.buildIndexes()
	t.applyLocked(backlog)
	t.noteChange()
	t.full.Store(true)
	return nil
}

func (t *Table) load(ctx context.Context) (*btree.BTreeG[*Item], map[string]*Corrupt, store.Revision, error) {
	tree, corrupt := btree.NewG(treeDegree, byPath), map[string]*Corrupt{}
	t.bytes.Store(0)
	opts := store.ListOptions{Limit: fillPage, Bytes: fillBytes}
	for {
		page, err := t.cache.store.List(ctx, t.prefix, opts)
		if err != nil {
			return nil, nil, 0, err
		}
		for _, e := range page.Entries {
			path := e.Key[len(t.prefix):]
			item, err := t.newItem(path, e.Modified, e.Value)
			if err != nil {
				corrupt[path] = t.corruptItem(path, e.Modified, err)
				continue
			}
			t.shared.Share(item.object)
			tree.ReplaceOrInsert(item)
			t.bytes.Add(int64(item.Bytes()))
		}
		opts.At = page.Revision
		if !page.More {
			return tree, corrupt, page.Revision, nil
		}
		opts.After = page.Entries[len(page.Entries)-1].Key
	}
}

// empty drops the content of the table because the feed has missed changes. The next read fills it again, and watches
// continue from the store.
func (t *Table) empty() { t.reset((*changes).Drop) }

// finish drops the content of a removed table. Watches still yield the changes before that.
func (t *Table) finish() { t.reset(func(l *changes) { l.Close(ErrReplaced) }) }

// reset resets the table to its initial content. end ends its log and lanes.
func (t *Table) reset(end func(*changes)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap = t.filling != nil
	t.full.Store(false)
	end(t.log)
	for _, ll := range t.lanes {
		end(ll.changes)
	}
	clear(t.lanes)
	t.shared.Reset()
	t.tree, t.indexes, t.revision, t.log = nil, nil, 0, t.newLog(0)
}

// apply applies changes of this table, in order. Only the feed calls it.
func (t *Table) apply(events []store.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full.Load() {
		t.applyLocked(events)
		return
	}
	if t.filling == nil {
		return
	}
	for _, ev := range events {
		ev.Object = nil // the writer does not wait for the backlog, and keeps its object
		t.backlog = append(t.backlog, ev)
	}
}

func (t *Table) applyLocked(events []store.Event) {
	all := make([]change, 0, len(events))
	for i := range events {
		if events[i].Revision <= t.revision {
			continue // the fill has read it already
		}
		if c, ok := t.change(&events[i]); ok {
			c.bytes = c.retained()
			all = append(all, c)
		}
		t.revision = events[i].Revision
	}
	if len(all) > 0 {
		t.noteChange()
		t.log.Append(all[len(all)-1].revision, all)
		t.appendLanes(all)
	}
}

// change applies an event to the tree and the indexes. A value that cannot be decoded removes the object from them. ok is false for
// the removal of an object that is not in the tree.
func (t *Table) change(ev *store.Event) (out change, ok bool) {
	path := ev.Key[len(t.prefix):]
	out.revision = ev.Revision
	was := t.corrupt[path]
	delete(t.corrupt, path)
	if ev.Value != nil {
		var err error
		if out.now, err = t.item(path, ev); err != nil {
			t.addCorrupt(path, t.corruptItem(path, ev.Revision, err))
		}
	}
	if out.now == nil {
		before, ok := t.tree.Delete(&Item{path: path})
		if !ok {
			if was != nil && ev.Value == nil {
				out.lost = &was.Key
			}
			return out, out.lost != nil
		}
		t.shared.Drop(before.object)
		t.bytes.Add(-int64(before.Bytes()))
		out.before, out.gone = before, before.At(ev.Revision)
	} else {
		t.shared.Share(out.now.object)
		t.bytes.Add(int64(out.now.Bytes()))
		if before, ok := t.tree.ReplaceOrInsert(out.now); ok {
			t.shared.Drop(before.object)
			t.bytes.Add(-int64(before.Bytes()))
			out.before = before
		}
	}
	t.updateIndexes(out.before, out.now)
	return out, true
}

// item returns the item of an event: with the writer's object if it was created for this table, otherwise decoded from
// the stored value. The error is that of decoding the value.
func (t *Table) item(path string, ev *store.Event) (*Item, error) {
	p := t.pending(ev)
	if p == nil {
		return t.newItem(path, ev.Revision, ev.Value)
	}
	p.object.SetResourceVersion(formatRevision(ev.Revision))
	i := NewItem(keyOf(path), ev.Revision, p.object)
	i.path, i.size, i.sum, i.kept = path, len(ev.Value), sumOf(ev.Value), t.cache.kept
	if !t.resource.Undecoded {
		p.item.Store(i)
		return i, nil
	}
	held := t.encodedItem(path, ev.Revision, ev.Value) // the writer's response keeps the object, the table does not
	held.plain, held.writers = t.resource.Custom(), weak.Make(i)
	i.value, i.plain, i.kept = held.value, held.plain, nil
	p.item.Store(i)
	return held, nil
}

// Get returns the item of key at the revision that the feed has reached. The error is a *Corrupt if its value cannot be decoded.
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
	if c := t.corrupt[probe.path]; !ok && c != nil {
		return nil, false, c
	}
	return i, ok, nil
}

// noteChange updates the result of State.
func (t *Table) noteChange() {
	t.objects.Store(int64(t.tree.Len()))
	t.version.Add(1)
}

// Count returns the number of objects, 0 before the table is first filled.
func (t *Table) Count() int { return int(t.objects.Load()) }

// State returns a number that grows with every change of the table, and the number of its objects, at the revision that the feed
// has reached.
func (t *Table) State(ctx context.Context) (version uint64, count int, err error) {
	if !t.full.Load() {
		if err := t.ready(ctx); err != nil {
			return 0, 0, err
		}
	}
	return t.version.Load(), int(t.objects.Load()), nil
}

// Bytes returns the approximate memory of the table's objects, if the resource is not kept decoded; 0 while it is not filled.
func (t *Table) Bytes() int64 {
	if !t.full.Load() {
		return 0
	}
	return t.bytes.Load()
}

// snapshot is a table at one revision.
type snapshot struct {
	tree     *btree.BTreeG[*Item]
	revision store.Revision
	end      *place // later changes are behind it
}

func (t *Table) snapshot(ctx context.Context) (snapshot, error) {
	for {
		if err := t.ready(ctx); err != nil {
			return snapshot{}, err
		}
		reached := t.cache.Revision() // read before the lock, so that the tree includes it
		t.mu.Lock()
		if t.tree == nil {
			t.mu.Unlock()
			continue
		}
		s := snapshot{t.tree.Clone(), max(t.revision, reached), t.log.End()}
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

// All returns the items of a namespace ("": all) at the revision that the feed has reached.
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
