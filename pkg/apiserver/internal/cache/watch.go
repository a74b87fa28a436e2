package cache

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/store"
)

// Event is one change as a watch sees it. Item is nil in a bookmark.
type Event struct {
	Type     watch.EventType
	Item     *Item
	Revision store.Revision
	Initial  bool // a bookmark: the end of the initial events (annotation k8s.io/initial-events-end)
}

// WatchOptions say what a watch shall yield.
type WatchOptions struct {
	Selector
	From       store.Revision // changes after it; ignored with State or Now
	State      bool           // begin with what there is, as additions
	Now        bool           // begin with the next change
	InitialEnd bool           // after State, a bookmark that says so
	Bookmarks  time.Duration  // a bookmark when so long nothing has come; 0: none
}

// Watch returns the changes of a table in batches, in revision order, until ctx ends or the table is removed. An error ends them:
// store.ErrCompacted when the changes after From (or where a slow reader stands) are gone. A watch that starts in the
// future begins when that comes.
func (t *Table) Watch(ctx context.Context, o WatchOptions) iter.Seq2[[]Event, error] {
	return func(yield func([]Event, error) bool) {
		w := &watcher{table: t, o: o, yield: yield}
		defer w.close()
		if err := w.run(ctx); err != nil && ctx.Err() == nil && !t.over() {
			yield(nil, err)
		}
	}
}

// watcher is one running watch. at is the segment that it has read, seen the revision up to which it has seen
// everything.
type watcher struct {
	table *Table
	o     WatchOptions
	yield func([]Event, error) bool
	lane  *laneLog
	at    *segment
	seen  store.Revision
	timer clock.Timer
	left  bool // the reader has had enough
}

func (w *watcher) close() {
	if w.lane != nil {
		w.table.leave(w.lane)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	for !w.left && ctx.Err() == nil {
		if w.at == nil {
			if err := w.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		w.step(ctx)
	}
	return nil
}

// begin yields the initial state, if that is asked for, and finds where to read on.
func (w *watcher) begin(ctx context.Context) error {
	s, err := w.table.snapshot(ctx)
	if err != nil {
		return err
	}
	if !w.o.State && !w.o.Now {
		w.seen = w.o.From
		w.enter()
		return nil
	}
	w.seen, w.at = s.revision, s.last
	if w.o.State {
		w.state(s)
	}
	w.enter()
	return nil
}

// state yields what a snapshot holds.
func (w *watcher) state(s snapshot) {
	var out []Event
	s.ascend(w.o.Namespace, "", func(i *Item) bool {
		if w.o.matches(i) {
			out = append(out, Event{Type: watch.Added, Item: i, Revision: i.Revision})
		}
		return true
	})
	if w.o.InitialEnd {
		out = append(out, Event{Type: watch.Bookmark, Revision: s.revision, Initial: true})
	}
	w.emit(out)
}

// enter finds the place in the log, or in the watch's lane, that follows what has been seen. Without such a place, at
// stays nil and the store has to help.
func (w *watcher) enter() {
	t := w.table
	t.mu.Lock()
	w.at = nil
	if t.tree == nil {
		t.mu.Unlock()
		return
	}
	l, hot := t.laneOf(&w.o.Selector)
	if !hot {
		w.at = t.log.find(w.seen)
		t.mu.Unlock()
		return
	}
	if w.lane == nil || w.lane != t.lanes[l] {
		w.lane = t.join(l)
	}
	if w.at = w.lane.find(w.seen); w.at != nil {
		t.mu.Unlock()
		return
	}
	// What was in the log before the lane was opened is read from the log, up to here.
	from, at, end := t.log.find(w.seen), w.lane.last, t.log.last
	t.mu.Unlock()
	if from == nil {
		return
	}
	for from != end && !w.left {
		if from = from.next.Load(); from == nil {
			return // cut off meanwhile
		}
		w.read(from)
	}
	w.at = at
}

// step waits for the next segment and reads it.
func (w *watcher) step(ctx context.Context) {
	select {
	case <-w.at.ready:
	default:
		if !w.wait(ctx) {
			return
		}
	}
	next := w.at.next.Load()
	if next == nil {
		w.at = nil // too slow, or the table was emptied: the store knows
		return
	}
	w.at = next
	w.read(next)
}

// wait returns true when there is a next segment.
func (w *watcher) wait(ctx context.Context) bool {
	if w.o.Bookmarks == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-w.at.ready:
			return true
		}
	}
	if w.timer == nil {
		w.timer = w.table.cache.clock.NewTimer(w.o.Bookmarks)
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.at.ready:
		return true
	case <-w.timer.C():
		w.timer.Reset(w.o.Bookmarks)
		w.bookmark()
		return false
	}
}

// bookmark tells how far the watch has come when nothing is left to read.
func (w *watcher) bookmark() {
	reached := w.table.cache.Revision() // first: what was reached is in the log
	if w.at.next.Load() != nil {
		return
	}
	w.seen = max(w.seen, reached)
	w.emit([]Event{{Type: watch.Bookmark, Revision: w.seen}})
}

func (w *watcher) read(s *segment) {
	var out []Event
	for i := range s.events {
		ev := &s.events[i]
		if ev.revision <= w.seen {
			continue
		}
		if e, ok := w.view(ev); ok {
			out = append(out, e)
		}
	}
	w.seen = max(w.seen, s.revision)
	w.emit(out)
}

func (w *watcher) emit(out []Event) {
	if len(out) > 0 && !w.left {
		w.left = !w.yield(out, nil)
	}
}

// view returns a change as the watch's selector shows it: an object that comes to match is added, one that no longer
// does is deleted, with what it was, under the change's revision.
func (w *watcher) view(ev *event) (Event, bool) {
	is, was := w.o.takes(ev.now), w.o.takes(ev.before)
	out := Event{Revision: ev.revision, Item: ev.now}
	switch {
	case is && was:
		out.Type = watch.Modified
	case is:
		out.Type = watch.Added
	case was && ev.gone != nil:
		out.Type, out.Item = watch.Deleted, ev.gone
	case was:
		out.Type, out.Item = watch.Deleted, ev.before.At(ev.revision)
	default:
		return out, false
	}
	return out, true
}

// catchUp reads from the store what the log no longer holds, until the log has what follows.
func (w *watcher) catchUp(ctx context.Context) error {
	if err := w.table.ready(ctx); err != nil {
		return err
	}
	if w.enter(); w.at != nil || w.left {
		return nil
	}
	t := w.table
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // whoever comes here reads from disk, and not for long
		select {
		case <-t.ended:
			stop()
		case <-ctx.Done():
		}
	}()
	for batch, err := range t.cache.store.Watch(ctx, t.prefix, w.seen) {
		if err != nil {
			return err
		}
		w.read(w.stored(batch))
		if w.left {
			return nil
		}
		if w.enter(); w.at != nil || w.left {
			return nil
		}
	}
	return nil
}

// stored makes a segment of a batch of the store. Objects that travel with it are the feed's, which may still be at work
// on them: only the bytes are used.
func (w *watcher) stored(batch store.Batch) *segment {
	t := w.table
	s := &segment{revision: batch.Revision}
	for _, ev := range batch.Events {
		path := ev.Key[len(t.prefix):]
		out := event{revision: ev.Revision}
		if ev.Value != nil {
			out.now = t.newItem(path, ev.Revision, ev.Value)
		}
		if ev.Prev != nil {
			out.before = t.newItem(path, ev.PrevRev, ev.Prev)
			if ev.Value == nil {
				out.gone = out.before.At(ev.Revision)
			}
		}
		s.events = append(s.events, out)
	}
	return s
}
