// Package memory is the store that lives as long as its process: for tests, and for clusters that need not outlive the
// daemon. It keeps every version of every key until Compact, or until they take more than historyBytes.
package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

const (
	// logBytes bounds the changes that watches read without a walk over the keys.
	logBytes = 8 << 20
	// historyBytes bounds the values that were replaced or deleted and not compacted yet. Beyond it the store compacts itself.
	historyBytes = 32 << 20
)

// Store is a store.Store in memory.
type Store struct {
	mu        sync.RWMutex
	keys      *btree.BTreeG[*history]
	replaced  []replacement // not compacted yet, in revision order
	past      int           // bytes of the replaced values
	head      store.Revision
	compacted store.Revision
	closed    bool
	log       *changelog.Events
}

// history holds the versions of a key, oldest first.
type history struct {
	key      string
	versions []version
}

// version is one state of a key. A nil value means that the key was deleted.
type version struct {
	modified, created store.Revision
	value             []byte
}

// replacement is the change that replaced or deleted a version of a key.
type replacement struct {
	at    store.Revision
	of    *history
	bytes int
}

// New returns an empty store.
func New() *Store {
	return &Store{
		keys: btree.NewG(32, func(a, b *history) bool { return a.key < b.key }),
		log:  changelog.NewEvents(0, logBytes, nil),
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

// current is the revision that expectations are compared with: 0 for an absent key.
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
	page, size := store.Page{Revision: at}, 0
	s.keys.AscendGreaterOrEqual(&history{key: max(prefix, opts.After)}, func(h *history) bool {
		if !strings.HasPrefix(h.key, prefix) {
			return false
		}
		v, ok := h.at(at)
		if !ok || h.key <= opts.After {
			return true
		}
		if opts.Full(len(page.Entries), size) {
			page.More = true
			return false
		}
		e := store.Entry{Key: h.key, Modified: v.modified}
		if !opts.Keys {
			e = v.entry(h.key)
		}
		page.Entries = append(page.Entries, e)
		size += len(e.Value)
		return true
	})
	return page, nil
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckSize(ops); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	before := make([]*history, len(ops))
	for i, op := range ops {
		before[i] = s.find(op.Key)
		if current := before[i].current(); !op.Expect.Holds(current) {
			return nil, &store.Conflict{Key: op.Key, Current: current}
		}
	}
	revisions := make([]store.Revision, len(ops))
	events := make([]store.Event, 0, len(ops))
	for i, op := range ops {
		if op.Value == nil && before[i].current() == 0 {
			continue
		}
		s.head++
		revisions[i] = s.head
		events = append(events, s.apply(before[i], op))
	}
	if len(events) > 0 {
		s.log.Append(s.head, events)
		s.bound()
	}
	return revisions, nil
}

// apply adds a version at the head revision to the key of op. h is nil for a new key.
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
		s.replaced = append(s.replaced, replacement{at: s.head, of: h, bytes: len(old.value)})
		s.past += len(old.value)
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
	if err := s.Retains(from); err != nil {
		return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, err) }
	}
	return changelog.Watch(ctx, s.log, s, prefix, from)
}

// Retains implements changelog.Past.
func (s *Store) Retains(from store.Revision) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if from < s.compacted {
		return store.ErrCompacted
	}
	return nil
}

// Scan implements changelog.Past.
func (s *Store) Scan(_ context.Context, prefix string, from, to store.Revision, yield func(string, store.Revision) bool) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.keys.AscendGreaterOrEqual(&history{key: prefix}, func(h *history) bool {
		if !strings.HasPrefix(h.key, prefix) {
			return false
		}
		for i := len(h.versions) - 1; i >= 0 && h.versions[i].modified > from; i-- {
			if rev := h.versions[i].modified; rev <= to && !yield(h.key, rev) {
				return false
			}
		}
		return true
	})
	return nil
}

// Change implements changelog.Past.
func (s *Store) Change(key string, rev store.Revision) (store.Event, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.find(key)
	if h == nil {
		return store.Event{}, store.ErrNotFound
	}
	i := slices.IndexFunc(h.versions, func(v version) bool { return v.modified == rev })
	if i < 0 {
		return store.Event{}, store.ErrNotFound
	}
	v := h.versions[i]
	ev := store.Event{Key: key, Value: v.value, Created: v.created, Revision: rev}
	if i > 0 && h.versions[i-1].value != nil {
		ev.Prev, ev.PrevRev = h.versions[i-1].value, h.versions[i-1].modified
	}
	return ev, nil
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
	s.compact(at)
	return nil
}

// bound compacts the store once the replaced values exceed historyBytes, down to three quarters of historyBytes.
func (s *Store) bound() {
	if s.past <= historyBytes {
		return
	}
	at, past := store.Revision(0), s.past
	for i := 0; past > historyBytes*3/4; i++ {
		at = s.replaced[i].at
		past -= s.replaced[i].bytes
	}
	s.compact(max(at, s.compacted))
}

// compact drops the versions that were replaced at or before revision at.
func (s *Store) compact(at store.Revision) {
	s.compacted = at
	n := 0
	for ; n < len(s.replaced) && s.replaced[n].at <= at; n++ {
		r := s.replaced[n]
		s.past -= r.bytes
		if r.of.compact(at); len(r.of.versions) == 0 {
			s.keys.Delete(r.of)
		}
	}
	s.replaced = slices.Clone(s.replaced[n:])
}

// compact drops the versions that no read at or after revision at can see.
func (h *history) compact(at store.Revision) {
	if len(h.versions) == 0 {
		return // by an earlier replacement of the key
	}
	keep := 0
	for keep+1 < len(h.versions) && h.versions[keep+1].modified <= at {
		keep++
	}
	if v := h.versions[keep]; v.modified <= at && v.value == nil {
		keep++
	}
	if keep == 0 {
		return
	}
	h.versions = slices.Clone(h.versions[keep:])
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.log.Close(store.ErrClosed)
	return nil
}
