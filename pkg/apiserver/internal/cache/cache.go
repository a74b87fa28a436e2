package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// Cache holds the tables of all resources. Run keeps them current.
type Cache struct {
	store store.Store
	clock clock.Clock

	kept   *encodingCache
	budget *changelog.Budget // of the logs of all tables

	compacted atomic.Uint64 // the revision below which lists are gone

	mu      sync.Mutex
	tables  map[string]*Table // by key prefix
	reached store.Revision    // every table shows everything up to here
	waiters []waiter
	failed  error // why the feed has ended
}

type waiter struct {
	revision store.Revision
	done     chan struct{}
}

// Pending is the decoded object of a write that has not been committed yet. The table that it was made for takes it over, with
// the resourceVersion of the write, instead of decoding the stored value. Every other table decodes for itself: that of another
// cache over the same store, and the one that replaces the table when the definition of its resource changes.
type Pending struct {
	object objects.Object
	table  *Table
	item   atomic.Pointer[Item] // set by the feed when the table takes the object over, before Wait returns
}

// Pending returns obj as the object of a write to the table. Once it is written it is shared, and belongs to the cache.
func (t *Table) Pending(obj objects.Object) *Pending { return &Pending{object: obj, table: t} }

// Ref returns the value for store.Op.Object. It does not keep the object alive.
func (p *Pending) Ref() any { return weak.Make(p) }

// pending returns the object of an event if it was made for this table, else nil.
func (t *Table) pending(ev *store.Event) *Pending {
	ref, ok := ev.Object.(weak.Pointer[Pending])
	if !ok {
		return nil
	}
	if p := ref.Value(); p != nil && p.table == t {
		return p
	}
	return nil
}

// layoutKey holds the version of the layout of keys and values in the store. It is a store's first write, so that no client sees
// the resourceVersion 0, which means "any".
const (
	layoutKey     = "layout"
	layoutVersion = "1"
)

// New returns a cache over s. Its tables follow the store while Run runs.
func New(ctx context.Context, s store.Store, clk clock.Clock) (*Cache, error) {
	if err := checkLayout(ctx, s); err != nil {
		return nil, err
	}
	head, err := s.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the store's head: %w", err)
	}
	return &Cache{
		store: s, clock: clk, kept: newEncodingCache(), budget: changelog.NewBudget(logBytes),
		tables: map[string]*Table{}, reached: head,
	}, nil
}

// checkLayout refuses a store with the layout of another version of the program.
func checkLayout(ctx context.Context, s store.Store) error {
	e, err := s.Get(ctx, layoutKey, 0)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.Write(ctx, store.Op{Key: layoutKey, Value: []byte(layoutVersion), Expect: store.Absent()})
		if err == nil || errors.Is(err, store.ErrConflict) { // another daemon of the cluster has written it
			return nil
		}
		return fmt.Errorf("write the store's layout: %w", err)
	}
	if err != nil {
		return fmt.Errorf("read the store's layout: %w", err)
	}
	if string(e.Value) != layoutVersion {
		return fmt.Errorf("the store has layout %q, this program reads %q", e.Value, layoutVersion)
	}
	return nil
}

// Add returns the table of r. The first call makes it.
func (c *Cache) Add(r *objects.Resource) *Table {
	prefix := Prefix(r.Names.GR())
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.tables[prefix]; ok {
		return t
	}
	t := newTable(c, r, prefix)
	c.tables[prefix] = t
	return t
}

// Remove removes the table of a resource. Its watches end, and reads of it fail with ErrReplaced. The objects stay in the store, and
// Add makes a new table of them.
func (c *Cache) Remove(gr schema.GroupResource) {
	prefix := Prefix(gr)
	c.mu.Lock()
	t := c.tables[prefix]
	delete(c.tables, prefix)
	c.mu.Unlock()
	if t != nil {
		close(t.removed)
		t.finish()
	}
}

// Run applies the store's changes to the tables until ctx ends or the store fails.
func (c *Cache) Run(ctx context.Context) error {
	defer c.checkShared()
	for {
		err := c.follow(ctx)
		if ctx.Err() != nil {
			c.fail(ctx.Err())
			return nil //nolint:nilerr // the caller has ended it
		}
		if !errors.Is(err, store.ErrCompacted) {
			c.fail(err)
			return err
		}
		if err := c.restart(ctx); err != nil {
			c.fail(err)
			return err
		}
	}
}

// checkShared fails in builds with the race detector if a reader has changed an object of a table.
func (c *Cache) checkShared() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tables {
		t.shared.Check()
	}
}

func (c *Cache) follow(ctx context.Context) error {
	for batch, err := range c.store.Watch(ctx, Root, c.Revision()) {
		if err != nil {
			return fmt.Errorf("follow the store: %w", err)
		}
		c.dispatch(batch)
	}
	if ctx.Err() == nil {
		return store.ErrClosed // only a closed store ends a watch without an error
	}
	return ctx.Err()
}

// dispatch applies a batch to the tables that it touches, then wakes the requests that wait for it.
func (c *Cache) dispatch(batch store.Batch) {
	for events := batch.Events; len(events) > 0; {
		prefix := PrefixOf(events[0].Key)
		n := 1
		for n < len(events) && PrefixOf(events[n].Key) == prefix {
			n++
		}
		if t := c.table(prefix); t != nil {
			t.apply(events[:n])
		}
		events = events[n:]
	}
	c.reach(batch.Revision)
}

func (c *Cache) table(prefix string) *Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tables[prefix]
}

func (c *Cache) reach(rev store.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = max(c.reached, rev)
	c.waiters = slices.DeleteFunc(c.waiters, func(w waiter) bool {
		if w.revision > c.reached {
			return false
		}
		close(w.done)
		return true
	})
}

func (c *Cache) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = fmt.Errorf("%w: %w", store.ErrClosed, err)
	for _, w := range c.waiters {
		close(w.done)
	}
	c.waiters = nil
}

// restart continues the feed at the store's head, after changes that it has not read were compacted. It empties the
// tables; the next read of a table fills it again. Watches continue from the store, which ends them with ErrCompacted.
func (c *Cache) restart(ctx context.Context) error {
	head, err := c.store.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the store's head: %w", err)
	}
	for _, t := range c.all() {
		t.empty()
	}
	c.reach(head)
	return nil
}

func (c *Cache) all() []*Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.tables))
}

// Trim drops the changes up to rev, to which the store was compacted, and all encodings. A watch that begins before rev reads from the
// store. A list before rev is gone, also if the store could still give it: clients of Kubernetes count on the end of their continue tokens.
func (c *Cache) Trim(rev store.Revision) {
	c.compacted.Store(uint64(rev))
	c.kept.drop()
	c.budget.Trim(rev)
}

// Revision returns the revision that the feed has reached.
func (c *Cache) Revision() store.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reached
}

// Wait returns once the feed has reached rev.
func (c *Cache) Wait(ctx context.Context, rev store.Revision) error {
	c.mu.Lock()
	if c.reached >= rev {
		c.mu.Unlock()
		return nil
	}
	if c.failed != nil {
		defer c.mu.Unlock()
		return c.failed
	}
	w := waiter{rev, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		c.drop(w)
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached < rev {
		return c.failed
	}
	return nil
}

func (c *Cache) drop(w waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = slices.DeleteFunc(c.waiters, func(o waiter) bool { return o.done == w.done })
}

// WaitUntilFresh returns once the tables show everything that was committed before the call.
func (c *Cache) WaitUntilFresh(ctx context.Context) error {
	head, err := c.store.Head(ctx)
	if err != nil {
		return err
	}
	return c.Wait(ctx, head)
}

// Committed returns the item that a write of p made at rev, once the tables show it. If the table has not taken the
// object over, only the caller has the item: the table is not filled, or was replaced, or the store leaves objects out of
// its events.
func (c *Cache) Committed(ctx context.Context, key objects.Key, p *Pending, rev store.Revision) (*Item, error) {
	if err := c.Wait(ctx, rev); err != nil {
		return nil, err
	}
	if i := p.item.Load(); i != nil {
		return i, nil
	}
	p.object.SetResourceVersion(formatRevision(rev))
	return NewItem(key, rev, p.object), nil
}
