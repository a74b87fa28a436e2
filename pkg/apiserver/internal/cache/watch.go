package cache

import (
	"context"
	"errors"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/store"
)

// Event is one change as a watch shows it. Item is nil in a bookmark.
type Event struct {
	Type     watch.EventType
	Item     *Item
	Revision store.Revision
	Initial  bool // a bookmark: the end of the initial events (annotation k8s.io/initial-events-end)
}

// WatchOptions select what a watch yields.
type WatchOptions struct {
	Selector
	From       store.Revision // changes after it; ignored with State or Now
	State      bool           // begin with the current objects, as additions
	Now        bool           // begin with the next change
	InitialEnd bool           // yield a bookmark with Initial after State
	Bookmarks  time.Duration  // the interval of bookmarks; 0: none

	// Replay is called before the watch reads changes from the store, which it holds for itself, and done when the reader has taken them.
	// It may wait for other watches. nil: nothing is called.
	Replay func(context.Context) (done func(), err error)
}

// Watch returns the changes of a table in batches, in revision order, until ctx ends or the table is removed. An error ends them:
// store.ErrCompacted when the changes after From, or after what a slow reader has read, are gone. A watch from a revision in
// the future yields nothing until the cache has reached it. With State or Now the watch begins at the call, not at the first
// iteration, so that it shows every change after the response's header.
func (t *Table) Watch(ctx context.Context, o WatchOptions) iter.Seq2[[]Event, error] {
	s, err := t.snapshot(ctx)
	return func(yield func([]Event, error) bool) {
		w := &watcher{table: t, o: o, yield: yield}
		defer w.close()
		err := err
		if err == nil {
			w.begin(s)
			s = snapshot{} // the objects that it holds have been yielded
			err = w.run(ctx)
		}
		if err != nil && ctx.Err() == nil && !t.isRemoved() {
			yield(nil, err)
		}
	}
}

// watcher is one running watch.
type watcher struct {
	table *Table
	o     WatchOptions
	yield func([]Event, error) bool
	lane  *laneLog
	at    *place         // the position in the log or lane; nil: to be read from the store
	seen  store.Revision // every change up to here was yielded
	timer clock.Timer
	left  bool // the loop has ended
	lost  bool // the watch has ended because of a change that cannot be shown
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
	var err error
	for err == nil && !w.left && ctx.Err() == nil {
		if w.at == nil {
			err = w.catchUp(ctx)
		} else {
			err = w.step(ctx)
		}
	}
	if w.lost {
		return store.ErrCompacted
	}
	return err
}

// begin yields the objects of s, if the options request the initial objects, and finds the place to read from.
func (w *watcher) begin(s snapshot) {
	if !w.o.State && !w.o.Now {
		w.seen = w.o.From
		w.enter()
		return
	}
	w.seen, w.at = s.revision, s.end
	if w.o.State {
		w.state(s)
	}
	w.enter()
}

// statePage is the number of initial objects that a watch yields at a time.
const statePage = 500

// state yields the objects of a snapshot.
func (w *watcher) state(s snapshot) {
	var out []Event
	s.ascend(w.o.Namespace, "", func(i *Item) bool {
		if len(out) == statePage {
			w.emit(out)
			out = make([]Event, 0, statePage)
		}
		if w.o.matches(i) {
			out = append(out, Event{Type: watch.Added, Item: i, Revision: i.Revision})
		}
		return !w.left
	})
	if w.o.InitialEnd {
		out = append(out, Event{Type: watch.Bookmark, Revision: s.revision, Initial: true})
	}
	w.emit(out)
}

// enter finds the place behind everything that was yielded, in the log or in the watch's lane. at stays nil when the changes
// behind it were dropped, and have to be read from the store.
func (w *watcher) enter() {
	t := w.table
	t.mu.Lock()
	w.at = nil
	if t.tree == nil {
		t.mu.Unlock()
		return
	}
	l, ok := t.laneOf(&w.o.Selector)
	if !ok {
		w.at, _ = t.log.Since(w.seen)
		t.mu.Unlock()
		return
	}
	if w.lane == nil || w.lane != t.lanes[l] {
		w.lane = t.join(l)
	}
	if w.at, ok = w.lane.Since(w.seen); ok {
		t.mu.Unlock()
		return
	}
	// The changes from before the lane was opened are in the log.
	from, ok := t.log.Since(w.seen)
	lane, end := w.lane.End(), t.log.End()
	t.mu.Unlock()
	if !ok {
		return
	}
	for from != end && !w.left {
		b, err := from.Next()
		if err != nil {
			return // dropped meanwhile
		}
		w.read(b.Changes, b.Revision)
		from = b.After
	}
	w.at = lane
}

// step reads the next batch, or waits for it.
func (w *watcher) step(ctx context.Context) error {
	b, err := w.at.Next()
	switch {
	case errors.Is(err, store.ErrCompacted):
		w.at = nil // the reader is too slow, or the table was emptied: the watch continues from the store
		return nil
	case err != nil:
		return err // the table was removed
	case b == nil:
		w.wait(ctx)
		return nil
	}
	w.at = b.After
	w.read(b.Changes, b.Revision)
	return nil
}

// wait returns when the log has a new batch, and after a bookmark.
func (w *watcher) wait(ctx context.Context) {
	var due <-chan time.Time
	if w.o.Bookmarks > 0 {
		if w.timer == nil {
			w.timer = w.table.cache.clock.NewTimer(w.o.Bookmarks)
		}
		due = w.timer.C()
	}
	late := false
	wait := func() {
		select {
		case <-ctx.Done():
		case <-w.at.Ready():
		case <-due:
			late = true
		}
	}
	if work := clock.WorkOf(ctx); work != nil {
		more := hasMore(w.at)
		work.Idle(func() bool { return ctx.Err() != nil || more() }, wait)
	} else {
		wait()
	}
	if late {
		w.timer.Reset(w.o.Bookmarks)
		w.bookmark()
	}
}

// hasMore returns a function that reports whether there is something to read at a place.
func hasMore(at *place) func() bool {
	return func() bool {
		b, err := at.Next()
		return b != nil || err != nil
	}
}

// bookmark yields how far the watch has come, unless there is something to read first.
func (w *watcher) bookmark() {
	reached := w.table.cache.Revision() // read first, so that the log has everything up to it
	if b, err := w.at.Next(); b != nil || err != nil {
		return
	}
	w.seen = max(w.seen, reached)
	w.emit([]Event{{Type: watch.Bookmark, Revision: w.seen}})
}

// read yields the changes of a batch that goes up to revision rev.
func (w *watcher) read(batch []change, rev store.Revision) {
	var out []Event
	for i := range batch {
		if batch[i].revision <= w.seen {
			continue
		}
		if key := batch[i].lost; key != nil && (w.o.Namespace == "" || w.o.Namespace == key.Namespace) {
			w.emit(out)
			w.lost, w.left = !w.left, true
			return
		}
		if e, ok := w.view(&batch[i]); ok {
			out = append(out, e)
		}
	}
	w.seen = max(w.seen, rev)
	w.emit(out)
}

func (w *watcher) emit(out []Event) {
	if len(out) > 0 && !w.left {
		w.left = !w.yield(out, nil)
	}
}

// view returns a change as the watch's selector shows it. An object that begins to match is Added. One that no longer matches is
// Deleted, as it was before, under the revision of the change.
func (w *watcher) view(c *change) (Event, bool) {
	is, was := w.o.selects(c.now), w.o.selects(c.before)
	out := Event{Revision: c.revision, Item: c.now}
	switch {
	case is && was:
		out.Type = watch.Modified
	case is:
		out.Type = watch.Added
	case was && c.gone != nil:
		out.Type, out.Item = watch.Deleted, c.gone
	case was:
		out.Type, out.Item = watch.Deleted, c.before.At(c.revision)
	default:
		return out, false
	}
	return out, true
}

// catchUp reads the changes that the log has dropped from the store, until the log has the next change.
func (w *watcher) catchUp(ctx context.Context) error {
	t := w.table
	if err := t.ready(ctx); err != nil {
		return err
	}
	if w.enter(); w.at != nil || w.left {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-t.removed:
			stop()
		case <-ctx.Done():
		}
	}()
	if w.o.Replay != nil {
		done, err := w.o.Replay(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	for batch, err := range t.cache.store.Watch(ctx, t.prefix, w.seen) {
		if err != nil {
			return err
		}
		w.read(w.stored(batch.Events), batch.Revision)
		if w.left {
			return nil
		}
		if w.enter(); w.at != nil || w.left {
			return nil
		}
	}
	return nil
}

// stored decodes events of the store. It treats a value that cannot be decoded as absent. It does not use the objects
// that travel with them: the feed may still change those.
func (w *watcher) stored(events []store.Event) []change {
	t := w.table
	out := make([]change, 0, len(events))
	for _, ev := range events {
		path := ev.Key[len(t.prefix):]
		c := change{revision: ev.Revision}
		var broken error
		if ev.Value != nil {
			c.now, _ = t.newItem(path, ev.Revision, ev.Value)
		}
		if ev.Prev != nil {
			c.before, broken = t.newItem(path, ev.PrevRev, ev.Prev)
		}
		switch {
		case c.before != nil && c.now == nil:
			c.gone = c.before.At(ev.Revision)
		case broken != nil && ev.Value == nil:
			c.lost = new(keyOf(path))
		}
		out = append(out, c)
	}
	return out
}
