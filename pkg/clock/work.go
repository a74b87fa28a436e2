package clock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Work counts what one part of a cluster has to do at the present time of a Manual clock: the keys of a queue, or a goroutine that runs.
// A cluster is settled while no Work has anything to do. On other clocks there is no Work: all methods of a nil *Work do nothing, and
// cost nothing.
//
// Work must not be lost between two parts: a part ends its own after the next one has begun. A Work is safe for
// concurrent use.
type Work struct {
	activity *activity
	name     string
	starting bool // it ends when the part that it starts has a Work of its own
	units    atomic.Int64
	ended    atomic.Bool
	idle     atomic.Pointer[func() bool] // set during Idle: reports whether there is something to wake up for
	turn     *turn                       // that the Work counts, nil for others
}

// activity is the Work of all parts of a cluster.
type activity struct {
	units atomic.Int64  // the sum of all parts
	begun atomic.Uint64 // how often a part got something to do

	mu    sync.Mutex
	parts []*Work       // replaced, never changed
	ended chan struct{} // has room for one; signalled when units gets to 0
	calm  chan struct{} // the same for turns, also signalled when only that of a turn is left
	turns *turns        // nil: the parts take none
}

func newActivity() *activity {
	return &activity{ended: make(chan struct{}, 1), calm: make(chan struct{}, 1)}
}

// NewWork returns the Work of a part of the cluster on c, with nothing to do. name describes it to users, e.g. "controller job". It is
// nil unless c is a Manual clock.
func NewWork(c Clock, name string) *Work {
	m, ok := c.(*Manual)
	if !ok {
		return nil
	}
	w := &Work{activity: m.activity, name: name}
	w.list()
	return w
}

// list adds w to the parts whose Idle is looked at.
func (w *Work) list() {
	a := w.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parts = append(slices.Clip(a.parts), w)
}

// unlist undoes list.
func (w *Work) unlist() {
	a := w.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parts = slices.DeleteFunc(slices.Clone(a.parts), func(o *Work) bool { return o == w })
}

type workKey struct{}

// Begin returns the Work of a goroutine that runs until it calls End, and a context that carries it: Sleep with this context marks
// it as idle meanwhile. A goroutine started below it needs a Work of its own if it sleeps.
func Begin(ctx context.Context, c Clock, name string) (context.Context, *Work) {
	w := NewWork(c, name)
	if w == nil {
		return ctx, nil
	}
	w.Add(1)
	if s := WorkOf(ctx); s != nil && s.starting {
		s.End()
	}
	return context.WithValue(ctx, workKey{}, w), w
}

// Starting counts a part of the cluster as busy until it calls Begin with the context that the returned function makes. A part that is
// about to run in a goroutine is counted from then on.
func Starting(c Clock, name string) (in func(context.Context) context.Context) {
	w := NewWork(c, "start of "+name)
	if w == nil {
		return func(ctx context.Context) context.Context { return ctx }
	}
	w.starting = true
	w.Add(1)
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, workKey{}, w) }
}

// WorkOf returns the Work that ctx carries, nil if it carries none.
func WorkOf(ctx context.Context) *Work {
	w, _ := ctx.Value(workKey{}).(*Work)
	return w
}

// Add adds n units, of which each is removed by a negative n when it is done. It has no effect after End.
func (w *Work) Add(n int) {
	if w == nil || w.ended.Load() {
		return
	}
	w.units.Add(int64(n))
	w.activity.add(n)
	if w.ended.Load() { // meanwhile
		w.clear()
	}
}

func (a *activity) add(n int) {
	if n > 0 {
		a.begun.Add(1)
	}
	left := a.units.Add(int64(n))
	if left == 0 {
		signal(a.ended)
	}
	if left <= 1 && a.turns != nil {
		signal(a.calm)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// End removes the Work with all its units.
func (w *Work) End() {
	if w == nil || w.ended.Swap(true) {
		return
	}
	if w.turn == nil {
		w.unlist()
	}
	w.clear()
}

// clear removes the units.
func (w *Work) clear() {
	if left := w.units.Swap(0); left != 0 {
		w.activity.add(int(-left))
	}
}

// Idle calls wait, which blocks until there is something to do. Meanwhile pending reports whether there is: from the moment that the other
// side has passed it on until after wait has returned. It is called concurrently with wait.
func (w *Work) Idle(pending func() bool, wait func()) {
	if w == nil || w.turn != nil && w.turn.held.Load() == nil {
		wait()
		return
	}
	if w.turn != nil {
		w.list()
		defer w.turn.retake()
		defer w.unlist()
	}
	w.idle.Store(&pending)
	w.rest()
	wait()
	w.Add(1)
	w.idle.Store(nil)
}

// rest removes the unit of a part that begins to wait, and ends its turn if it has one.
func (w *Work) rest() {
	if w == nil {
		return
	}
	if w.turn != nil {
		w.turn.leave()
		return
	}
	w.Add(-1)
}

// settled reports whether no part has anything to do or waits for a turn.
func (a *activity) settled() bool {
	begun := a.begun.Load()
	return (a.turns == nil || a.turns.idle()) && a.quiet(0) && a.begun.Load() == begun
}

// quiet reports whether no part has anything to do, except for a number of units. Something that passes from a part that was checked to one
// that was not, or back, begins there, which begun shows.
func (a *activity) quiet(units int64) bool {
	begun := a.begun.Load()
	if a.units.Load() != units {
		return false
	}
	a.mu.Lock()
	parts := a.parts
	a.mu.Unlock()
	for _, w := range parts {
		if pending := w.idle.Load(); pending != nil && (*pending)() {
			return false
		}
	}
	return a.units.Load() == units && a.begun.Load() == begun
}

// pause waits a moment for a signal, for the caller's next try.
func (a *activity) pause(ctx context.Context, machine Clock, tries int, signals <-chan struct{}) {
	if tries < 16 {
		runtime.Gosched()
		return
	}
	t := machine.NewTimer(100 * time.Microsecond)
	defer t.Stop()
	select {
	case <-signals:
	case <-t.C():
	case <-ctx.Done():
	}
}

// busy describes the parts that have something to do.
func (a *activity) busy() []string {
	a.mu.Lock()
	parts := a.parts
	a.mu.Unlock()
	counts := map[string]int64{}
	for _, w := range parts {
		n := w.units.Load()
		if pending := w.idle.Load(); n == 0 && pending != nil && (*pending)() {
			n = 1
		}
		if n > 0 {
			counts[w.name] += n
		}
	}
	for _, name := range a.turns.names() {
		counts[name]++
	}
	var out []string
	for name, n := range counts {
		if n > 1 {
			name = fmt.Sprintf("%s (%d)", name, n)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
