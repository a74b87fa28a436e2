package changelog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/minikctl/minikctl/pkg/store"
)

// The bounds of a replay: of the changes that a watch reads from storage because the log has dropped them.
const (
	// maxReplay is the highest number of matching changes that a watch reads from storage. A client that is further
	// behind gets store.ErrCompacted, because a new list is faster for it.
	maxReplay = 20_000
	// chunkChanges is the number of changes in one pass over the keys, and chunkBytes the size of the values that are
	// read at a time. A watch holds no more than both.
	chunkChanges = 2048
	chunkBytes   = 256 << 10
)

// Events is the log of a store.
type Events = Log[store.Event]

// NewEvents returns the log of a store whose next change follows revision head. It holds up to limit bytes. dropped is called for each
// event that the log drops, unless it is nil.
func NewEvents(head store.Revision, limit int, dropped func(*store.Event)) *Events {
	return New(NewBudget(limit), Accounting[store.Event]{Size: valueBytes, Dropped: dropped}, head)
}

// valueBytes is the size of an event's key and values.
func valueBytes(ev *store.Event) int { return len(ev.Key) + len(ev.Value) + len(ev.Prev) }

// Storage is a driver's storage of older changes.
type Storage interface {
	// Scan calls yield for each change after revision from and up to revision to, inclusive, of a key that starts with
	// prefix, in any order, until yield returns false. It reads keys only.
	Scan(ctx context.Context, prefix string, from, to store.Revision, yield func(key string, rev store.Revision) bool) error
	// Change reads the change that key had at revision rev, with the value before.
	Change(key string, rev store.Revision) (store.Event, error)
	// Retains returns store.ErrCompacted if changes after revision from may be gone.
	Retains(from store.Revision) error
}

// Watch implements the Watch of a store: it yields the changes after revision from of keys that start with prefix. It
// reads the changes that log has dropped from past, in chunks of bounded size. It ends with store.ErrCompacted when
// changes are gone, or too many.
func Watch(ctx context.Context, log *Events, past Storage, prefix string, from store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		w := &watcher{log: log, past: past, prefix: prefix, seen: from, yield: yield}
		if err := w.run(ctx); err != nil && !w.left {
			yield(store.Batch{}, err)
		}
	}
}

// watcher is a running watch.
type watcher struct {
	log    *Events
	past   Storage
	prefix string
	seen   store.Revision // every change up to it has been yielded
	idle   bool           // seen has been yielded
	left   bool           // the reader has left the loop
	yield  func(store.Batch, error) bool
}

func (w *watcher) run(ctx context.Context) error {
	if w.seen > w.log.End().Revision {
		return store.ErrFuture
	}
	for !w.left {
		p, ok := w.log.Since(w.seen)
		if !ok {
			if err := w.replay(ctx, w.log.End().Revision); err != nil {
				return err
			}
			continue
		}
		if err := w.follow(ctx, p); !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
	return nil
}

// follow yields the batches of the log behind p. It returns store.ErrCompacted when the log has dropped the next one.
func (w *watcher) follow(ctx context.Context, p *Place[store.Event]) error {
	for !w.left {
		b, err := p.Next()
		if err != nil {
			return err
		}
		if b != nil {
			w.emit(b.Revision, w.matching(b.Changes))
			p = b.After
			continue
		}
		if !w.idle {
			w.idle = true
			w.left = !w.yield(store.Batch{Revision: w.seen}, nil)
			continue
		}
		select {
		case <-p.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// emit yields events, if any, and records that everything up to rev was read.
func (w *watcher) emit(rev store.Revision, events []store.Event) {
	w.seen = max(w.seen, rev)
	w.idle = len(events) > 0
	if len(events) > 0 {
		w.left = !w.yield(store.Batch{Events: events, Revision: w.seen}, nil)
	}
}

// matching returns the events for the watch's keys that were not yielded before. It does not change the given slice.
func (w *watcher) matching(events []store.Event) []store.Event {
	skip := func(ev store.Event) bool { return ev.Revision <= w.seen || !strings.HasPrefix(ev.Key, w.prefix) }
	if !slices.ContainsFunc(events, skip) {
		return events
	}
	var out []store.Event
	for _, ev := range events {
		if !skip(ev) {
			out = append(out, ev)
		}
	}
	return out
}

// replay yields the changes up to revision to from storage.
func (w *watcher) replay(ctx context.Context, to store.Revision) error {
	for w.seen < to && !w.left {
		found, more, err := w.scan(ctx, to)
		if err != nil {
			return err
		}
		if err := w.read(ctx, found); err != nil {
			return err
		}
		if !more && !w.left {
			w.emit(to, nil)
		}
	}
	return nil
}

// change is the key and revision of a change whose values were not read.
type change struct {
	key      string
	revision store.Revision
}

// scan returns the oldest chunkChanges changes that were not yielded before, in order, and whether there are more. It
// reads keys only, and holds at most twice as many.
func (w *watcher) scan(ctx context.Context, to store.Revision) (found []change, more bool, err error) {
	if err := w.past.Retains(w.seen); err != nil {
		return nil, false, err
	}
	behind, last := 0, to // changes after last are not among the oldest
	err = w.past.Scan(ctx, w.prefix, w.seen, to, func(key string, rev store.Revision) bool {
		if behind++; rev > last {
			return behind <= maxReplay
		}
		if found = append(found, change{key, rev}); len(found) == 2*chunkChanges {
			found = oldest(found)
			last = found[len(found)-1].revision
		}
		return behind <= maxReplay
	})
	if err == nil && behind > maxReplay {
		err = store.ErrCompacted
	}
	if err != nil {
		return nil, false, err
	}
	return oldest(found), behind > chunkChanges, nil
}

// oldest sorts changes and cuts off those beyond chunkChanges.
func oldest(changes []change) []change {
	slices.SortFunc(changes, func(a, b change) int {
		if a.revision < b.revision {
			return -1
		}
		return 1 // no two changes have the same revision
	})
	if len(changes) > chunkChanges {
		clear(changes[chunkChanges:])
		changes = changes[:chunkChanges]
	}
	return changes
}

// read yields changes with their values, in batches of about chunkBytes.
func (w *watcher) read(ctx context.Context, changes []change) error {
	var events []store.Event
	size := 0
	for i, c := range changes {
		ev, err := w.past.Change(c.key, c.revision)
		if err != nil {
			return errors.Join(w.past.Retains(w.seen), err)
		}
		events = append(events, ev)
		if size += valueBytes(&ev); size < chunkBytes && i < len(changes)-1 {
			continue
		}
		if err := w.past.Retains(w.seen); err != nil { // the changes may have been compacted while they were read
			return err
		}
		w.emit(c.revision, events)
		if w.left || ctx.Err() != nil {
			return ctx.Err()
		}
		events, size = nil, 0
	}
	return nil
}
