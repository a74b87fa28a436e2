// Package memory is the store that lives as long as its process: for tests, and for clusters that need not outlive the
// daemon. It keeps every version of every key until Compact.
package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/internal/ring"
)

// ringBytes bounds the changes that watches read without walking the tree.
const ringBytes = 32 << 20

// maxValue is the largest value that is taken, as in the badger driver.
const maxValue = 1536 << 10

// Store is a store.Store in memory.
type Store struct {
	mu        sync.RWMutex
	keys      *btree.BTreeG[*history]
	head      store.Revision
	compacted store.Revision
	closed    bool
	ring      *ring.Ring
}

// history is what a key has been, oldest first.
type history struct {
	key      string
	versions []version
}

// version is one state of a key. A nil value means that the key was deleted.
type version struct {
	modified, created store.Revision
	value             []byte
}

// New returns an empty store.
func New() *Store {
	return &Store{
		keys: btree.NewG(32, func(a, b *history) bool { return a.key < b.key }),
		ring: ring.New(0, ringBytes),
	}
}

// at returns the state of the key at revision rev.
func (h *history) at(rev store.Revision) (version, bool) {
	for i := len(h.versions) - 1; i >= 0; i-- {
		if v := h.versions[i]; v.modified <= rev {
			return v, v.value != nil
		}
	}
	return version{}, false
}

func (h *history) newest() version { return h.versions[len(h.versions)-1] }

// current is the revision that expectations are held against: 0 for an absent key.
func (h *history) current() store.Revision {
	if h == nil || h.newest().value == nil {
		return 0
	}
	return h.newest().modified
}

func (s *Store) find(key string) *history {
	h, _ := s.keys.Get(&history{key: key})
	return h
}

// readable turns a requested revision into one that can be read.
func (s *Store) readable(at store.Revision) (store.Revision, error) {
	switch {
	case s.closed:
		return 0, store.ErrClosed
	case at == 0:
		return s.head, nil
	case at > s.head:
		return 0, store.ErrFuture
	case at < s.compacted:
		return 0, store.ErrCompacted
	}
	return at, nil
}

// Get implements store.Store.
func (s *Store) Get(_ context.Context, key string, at store.Revision) (store.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := s.readable(at)
	if err != nil {
		return store.Entry{}, err
	}
	if h := s.find(key); h != nil {
		if v, ok := h.at(at); ok {
			return v.entry(key), nil
		}
	}
	return store.Entry{}, store.ErrNotFound
}

func (v version) entry(key string) store.Entry {
	return store.Entry{Key: key, Value: v.value, Created: v.created, Modified: v.modified}
}

// List implements store.Store.
func (s *Store) List(_ context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, err := s.readable(opts.At)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{Revision: at}
	s.keys.AscendGreaterOrEqual(&history{key: max(prefix, opts.After)}, func(h *history) bool {
		if !strings.HasPrefix(h.key, prefix) {
			return false
		}
		v, ok := h.at(at)
		if !ok || h.key <= opts.After {
			return true
		}
		if opts.Limit > 0 && len(page.Entries) == opts.Limit {
			page.More = true
			return false
		}
		page.Entries = append(page.Entries, v.entry(h.key))
		return true
	})
	return page, nil
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	before := make([]*history, len(ops))
	for i, op := range ops {
		if len(op.Value) > maxValue {
			return nil, store.ErrTooLarge
		}
		before[i] = s.find(op.Key)
		if current := before[i].current(); !op.Expect.Holds(current) {
			return nil, &store.Conflict{Key: op.Key, Current: current}
		}
	}
	revisions := make([]store.Revision, len(ops))
	batch := store.Batch{Events: make([]store.Event, 0, len(ops))}
	for i, op := range ops {
		if op.Value == nil && before[i].current() == 0 {
			continue
		}
		s.head++
		revisions[i] = s.head
		batch.Events = append(batch.Events, s.apply(before[i], op))
	}
	if len(batch.Events) > 0 {
		batch.Revision = s.head
		s.ring.Append(batch)
	}
	return revisions, nil
}

// apply puts one op at the head revision on top of what its key was before.
func (s *Store) apply(h *history, op store.Op) store.Event {
	ev := store.Event{Key: op.Key, Value: op.Value, Revision: s.head, Object: op.Object}
	if h == nil {
		h = &history{key: op.Key}
		s.keys.ReplaceOrInsert(h)
	}
	v := version{modified: s.head, created: s.head, value: op.Value}
	if len(h.versions) > 0 && h.newest().value != nil {
		old := h.newest()
		ev.Prev, ev.PrevRev = old.value, old.modified
		v.created = old.created
	}
	if op.Value == nil {
		v.created = 0
	}
	ev.Created = v.created
	h.versions = append(h.versions, v)
	return ev
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Revision) iter.Seq2[store.Batch, error] {
	s.mu.RLock()
	compacted := s.compacted
	s.mu.RUnlock()
	if from < compacted {
		return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, store.ErrCompacted) }
	}
	return s.ring.Watch(ctx, prefix, from, s.older)
}

// older collects the changes in (from, to] out of the histories.
func (s *Store) older(_ context.Context, from, to store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		s.mu.RLock()
		if from < s.compacted {
			s.mu.RUnlock()
			yield(store.Batch{}, store.ErrCompacted)
			return
		}
		batch := store.Batch{Revision: to}
		s.keys.Ascend(func(h *history) bool {
			batch.Events = append(batch.Events, h.changes(from, to)...)
			return true
		})
		s.mu.RUnlock()
		slices.SortFunc(batch.Events, func(a, b store.Event) int { return int(int64(a.Revision) - int64(b.Revision)) })
		yield(batch, nil)
	}
}

func (h *history) changes(from, to store.Revision) []store.Event {
	var out []store.Event
	for i, v := range h.versions {
		if v.modified <= from || v.modified > to {
			continue
		}
		ev := store.Event{Key: h.key, Value: v.value, Created: v.created, Revision: v.modified}
		if i > 0 && h.versions[i-1].value != nil {
			ev.Prev, ev.PrevRev = h.versions[i-1].value, h.versions[i-1].modified
		}
		out = append(out, ev)
	}
	return out
}

// Head implements store.Store.
func (s *Store) Head(context.Context) (store.Revision, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	return s.head, nil
}

// Compact implements store.Store.
func (s *Store) Compact(_ context.Context, at store.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return store.ErrClosed
	case at > s.head:
		return store.ErrFuture
	case at <= s.compacted:
		return nil
	}
	s.compacted = at
	var gone []*history
	s.keys.Ascend(func(h *history) bool {
		if h.compact(at); len(h.versions) == 0 {
			gone = append(gone, h)
		}
		return true
	})
	for _, h := range gone {
		s.keys.Delete(h)
	}
	return nil
}

// compact drops the versions that no read at or after revision at can see.
func (h *history) compact(at store.Revision) {
	keep := 0
	for i, v := range h.versions {
		if v.modified <= at {
			keep = i
		}
	}
	if v := h.versions[keep]; v.modified <= at && v.value == nil {
		keep++
	}
	h.versions = slices.Clone(h.versions[keep:])
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.ring.Close()
	return nil
}
