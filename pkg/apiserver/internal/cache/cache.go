package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Cache holds the tables of all resources. Run feeds them.
type Cache struct {
	store store.Store
	clock clock.Clock

	kept *kept // encodings

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

// Pending is an object on its way through the store, as Op.Object. The feed gives it its resourceVersion and puts it
// into its table, from when on it is shared. It is its cache's own: another cache over the same store, in the same
// process, decodes an object for itself.
type Pending struct {
	Object objects.Object
	cache  *Cache

	item atomic.Pointer[Item] // set before the writer goes on, or, while the table is filled, maybe after
}

// Pending returns obj as what a write of this cache's server sends along.
func (c *Cache) Pending(obj objects.Object) *Pending { return &Pending{Object: obj, cache: c} }

// pending returns what this cache's server has sent along with a change; nil when it was another's.
func (c *Cache) pending(ev *store.Event) *Pending {
	if p, ok := ev.Object.(*Pending); ok && p.cache == c {
		return p
	}
	return nil
}

// layoutKey holds the version of how objects are laid out in the store. It is a store's first write, so that no revision
// that a client sees is 0, which means "any".
const (
	layoutKey     = "layout"
	layoutVersion = "1"
)

// New returns a cache over s. Nothing of it moves before Run.
func New(ctx context.Context, s store.Store, clk clock.Clock) (*Cache, error) {
	if err := checkLayout(ctx, s); err != nil {
		return nil, err
	}
	head, err := s.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the store's head: %w", err)
	}
	return &Cache{store: s, clock: clk, kept: &kept{limit: keptLimit}, tables: map[string]*Table{}, reached: head}, nil
}

// checkLayout refuses a store that another version of the program has laid out differently.
func checkLayout(ctx context.Context, s store.Store) error {
	e, err := s.Get(ctx, layoutKey, 0)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.Write(ctx, store.Op{Key: layoutKey, Value: []byte(layoutVersion), Expect: store.Absent()})
		if err == nil || errors.Is(err, store.ErrConflict) { // another daemon of the cluster may have been faster
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

// Add returns the table of r, which is made at the first call.
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

// Remove forgets the table of a resource. What it holds stays in the store, for another table to be made of; its watches
// end, and reads of it fail with ErrReplaced.
func (c *Cache) Remove(gr schema.GroupResource) {
	prefix := Prefix(gr)
	c.mu.Lock()
	t := c.tables[prefix]
	delete(c.tables, prefix)
	c.mu.Unlock()
	if t != nil {
		close(t.ended)
		t.finish()
	}
}

// Run feeds the tables until ctx ends or the store fails.
func (c *Cache) Run(ctx context.Context) error {
	for {
		err := c.follow(ctx)
		if ctx.Err() != nil {
			c.fail(ctx.Err())
			return nil //nolint:nilerr // it was to end
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

func (c *Cache) follow(ctx context.Context) error {
	for batch, err := range c.store.Watch(ctx, Root, c.Revision()) {
		if err != nil {
			return fmt.Errorf("follow the store: %w", err)
		}
		c.dispatch(batch)
	}
	if ctx.Err() == nil {
		return store.ErrClosed // a store only stops telling when it is closed
	}
	return ctx.Err()
}

// dispatch hands a batch to the tables that it touches, then lets those go on who wait for it.
func (c *Cache) dispatch(batch store.Batch) {
	for events := batch.Events; len(events) > 0; {
		prefix := tableOf(events[0].Key)
		n := 1
		for n < len(events) && tableOf(events[n].Key) == prefix {
			n++
		}
		if t := c.table(prefix); t != nil {
			t.apply(events[:n])
		} else {
			c.settle(events[:n])
		}
		events = events[n:]
	}
	c.reach(batch.Revision)
}

// settle gives pending objects of no table their resourceVersion.
func (c *Cache) settle(events []store.Event) {
	for i := range events {
		if p := c.pending(&events[i]); p != nil {
			p.Object.SetResourceVersion(formatRevision(events[i].Revision))
		}
	}
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

// restart begins anew at the store's head when what lay between has been compacted: tables are filled again when they
// are next used, and watches go on from the store, which tells them that they are too late.
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

// Trim forgets the changes up to rev, but for each table's last, and the encodings. Watches that begin before are served
// by the store, if it still can.
func (c *Cache) Trim(rev store.Revision) {
	c.kept.drop()
	for _, t := range c.all() {
		t.mu.Lock()
		t.log.trim(rev)
		for _, l := range t.lanes {
			l.trim(rev)
		}
		t.mu.Unlock()
	}
}

// Revision returns how far the feed has come.
func (c *Cache) Revision() store.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reached
}

// Wait returns once the feed has come to rev.
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

// Fresh returns once the tables show everything that was committed before the call.
func (c *Cache) Fresh(ctx context.Context) error {
	head, err := c.store.Head(ctx)
	if err != nil {
		return err
	}
	return c.Wait(ctx, head)
}

// Committed returns the item that a write of p made at rev, once the tables show it.
func (c *Cache) Committed(ctx context.Context, key objects.Key, p *Pending, rev store.Revision) (*Item, error) {
	if err := c.Wait(ctx, rev); err != nil {
		return nil, err
	}
	if i := p.item.Load(); i != nil {
		return i, nil
	}
	if p.Object.GetResourceVersion() == "" { // a store that leaves objects out of its events
		p.Object.SetResourceVersion(formatRevision(rev))
	}
	return NewItem(key, rev, p.Object), nil
}
