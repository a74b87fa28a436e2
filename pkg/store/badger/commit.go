package badger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	db "github.com/dgraph-io/badger/v4"

	"github.com/minikctl/minikctl/pkg/store"
)

// A commit takes up to this many requests, or until their values come to this many bytes.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// request is a Write or a Compact that waits for the committing goroutine.
type request struct {
	ops       []store.Op
	compact   store.Revision // not 0: a compaction
	revisions []store.Revision
	err       error
	done      chan struct{}
}

// Write implements store.Store.
func (s *Store) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if err := store.CheckSize(ops); err != nil {
		return nil, err
	}
	r := &request{ops: ops}
	err := s.send(ctx, r)
	return r.revisions, err
}

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, at store.Revision) error {
	if at == 0 {
		return nil
	}
	return s.send(ctx, &request{compact: at})
}

func (s *Store) send(ctx context.Context, r *request) error {
	r.done = make(chan struct{})
	select {
	case <-s.stop:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case s.requests <- r:
	}
	select {
	case <-r.done:
		return r.err
	case <-s.stop:
		// The committing goroutine may have taken r just before it stopped.
		s.running.Wait()
		select {
		case <-r.done:
			return r.err
		default:
			return store.ErrClosed
		}
	}
}

// commit commits all waiting requests together and returns their results, again and again until the store is closed.
func (s *Store) commit() {
	for {
		select {
		case <-s.stop:
			return
		case r := <-s.requests:
			s.commitAll(s.gather(r))
		}
	}
}

func (s *Store) gather(first *request) []*request {
	all, size := []*request{first}, first.size()
	for len(all) < maxBatch && size < maxBatchBytes {
		select {
		case r := <-s.requests:
			all = append(all, r)
			size += r.size()
		default:
			return all
		}
	}
	return all
}

func (r *request) size() int {
	n := 0
	for _, op := range r.ops {
		n += len(op.Key) + len(op.Value)
	}
	return n
}

// group is the content of one commit.
type group struct {
	head    store.Revision
	pending map[string]store.Entry // the keys that the group changes; a nil Value: deleted
	events  []store.Event
	space   func() error // whether the disk has space for writes, checked once
}

func (s *Store) commitAll(all []*request) {
	defer func() {
		for _, r := range all {
			close(r.done)
		}
	}()
	if failed := s.failed.Load(); failed != nil {
		for _, r := range all {
			r.err = fmt.Errorf("%w: %w", store.ErrReadOnly, *failed)
		}
		return
	}
	g := &group{
		head: store.Revision(s.head.Load()), pending: map[string]store.Entry{},
		space: sync.OnceValue(func() error { return checkSpace(s.dir, s.ballast.reserve) }),
	}
	for _, r := range all {
		if r.compact == 0 {
			r.err = s.plan(g, r)
		}
	}
	if err := s.flush(g); err != nil {
		s.fail(err)
		for _, r := range all {
			if r.err == nil {
				r.err = fmt.Errorf("%w: %w", store.ErrReadOnly, err)
			}
		}
		return
	}
	for _, r := range all {
		if r.compact != 0 {
			r.err = s.compact(r.compact)
		}
	}
}

// plan checks the expectations of one request, on top of the group's earlier requests, and adds it when all hold.
func (s *Store) plan(g *group, r *request) error {
	if err := s.room(g, r); err != nil {
		return err
	}
	before := make([]store.Entry, len(r.ops))
	for i, op := range r.ops {
		var err error
		if before[i], err = s.current(g, op.Key); err != nil {
			return err
		}
		if !op.Expect.Holds(before[i].Modified) {
			return &store.Conflict{Key: op.Key, Current: before[i].Modified}
		}
	}
	r.revisions = make([]store.Revision, len(r.ops))
	for i, op := range r.ops {
		if op.Value == nil && before[i].Modified == 0 {
			continue
		}
		g.head++
		r.revisions[i] = g.head
		g.add(before[i], op)
	}
	return nil
}

// room refuses writes while the disk is nearly full. Deletions free space, so they are refused only later.
func (s *Store) room(g *group, r *request) error {
	if len(r.ops) > 0 && !slices.ContainsFunc(r.ops, func(op store.Op) bool { return op.Value != nil }) {
		return s.ballast.makeRoom()
	}
	return g.space()
}

// current returns the entry of key; an absent key has Modified 0.
func (s *Store) current(g *group, key string) (store.Entry, error) {
	if e, ok := g.pending[key]; ok {
		return e, nil
	}
	if e, ok := s.latest.get(key); ok {
		return e, nil
	}
	e, err := s.get(key, store.Revision(s.head.Load()))
	if errors.Is(err, store.ErrNotFound) {
		return store.Entry{}, nil
	}
	return e, err
}

func (g *group) add(before store.Entry, op store.Op) {
	ev := store.Event{
		Key: op.Key, Value: op.Value, Revision: g.head, Object: op.Object,
		Prev: before.Value, PrevRev: before.Modified,
	}
	after := store.Entry{Key: op.Key}
	if op.Value != nil {
		ev.Created = before.Created
		if before.Modified == 0 {
			ev.Created = g.head
		}
		after = store.Entry{Key: op.Key, Value: op.Value, Created: ev.Created, Modified: g.head}
	}
	g.pending[op.Key] = after
	g.events = append(g.events, ev)
}

// flush makes the group durable and then visible, in this order. After an error it is unknown whether the group is on
// disk.
func (s *Store) flush(g *group) error {
	if len(g.events) == 0 {
		return nil
	}
	wb := s.db.NewManagedWriteBatch()
	defer wb.Cancel()
	live, size := s.live, 0
	scratch := encodings.Get().(*[]byte)
	buf := slices.Grow((*scratch)[:0], g.encodedSize())
	for _, ev := range g.events {
		size += len(ev.Key) + len(ev.Value)
		live.apply(ev)
		start := len(buf)
		buf = append(append(buf, objectPrefix...), ev.Key...)
		key := buf[start:len(buf):len(buf)]
		var err error
		if ev.Value == nil {
			err = wb.DeleteAt(key, uint64(ev.Revision))
		} else {
			start = len(buf)
			buf = appendValue(buf, ev.Created, ev.Value)
			err = wb.SetEntryAt(db.NewEntry(key, buf[start:len(buf):len(buf)]), uint64(ev.Revision))
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", ev.Key, err)
		}
	}
	if err := s.record(wb, meta{store.Revision(s.compacted.Load()), s.complete, live, true}, g.head, size); err != nil {
		return err
	}
	*scratch = buf
	encodings.Put(scratch) // Badger has copied all of it
	s.live = live
	s.head.Store(uint64(g.head))
	s.latest.add(g.events)
	s.log.Append(g.head, g.events)
	return nil
}

// encodings has buffers for the keys and values of a commit.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

// encodedSize is the most bytes that the group's keys and values take in Badger.
func (g *group) encodedSize() int {
	size := 0
	for i := range g.events {
		size += len(objectPrefix) + len(g.events[i].Key) + encodedSize(g.events[i].Value)
	}
	return size
}

// compact writes the record of the compacted revision before it lets Badger discard. The record is written at the head, so that the
// head survives the removal of everything else.
func (s *Store) compact(at store.Revision) error {
	head := s.head.Load()
	switch {
	case uint64(at) > head:
		return store.ErrFuture
	case uint64(at) <= s.compacted.Load():
		return nil
	}
	wb := s.db.NewManagedWriteBatch()
	defer wb.Cancel()
	if err := s.record(wb, meta{at, s.complete, s.live, true}, store.Revision(head), 0); err != nil {
		s.fail(err)
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	s.compacted.Store(uint64(at))
	s.db.SetDiscardTs(uint64(at))
	return nil
}

// record adds the meta record m to the batch wb at revision head, commits the batch, which has so many bytes, and records head as
// acknowledged.
func (s *Store) record(wb *db.WriteBatch, m meta, head store.Revision, size int) error {
	if err := wb.SetEntryAt(db.NewEntry(metaKey, m.encode()), uint64(head)); err != nil {
		return fmt.Errorf("write meta record: %w", err)
	}
	if err := wb.Flush(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.names.sync(int64(size)); err != nil {
		return fmt.Errorf("sync the directory of the database: %w", err)
	}
	if err := s.guard.note(head); err != nil {
		return fmt.Errorf("note head: %w", err)
	}
	return nil
}
