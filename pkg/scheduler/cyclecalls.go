package scheduler

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// inline runs a section on the caller's goroutine: one whose plugins are cooperative, or one that a plugin calls through
// its Handle, so that the time-out of that plugin's call applies.
func (t *tracker) inline(ctx context.Context, f func(context.Context, *tracker)) (err *pluginFailure) {
	defer func() {
		if r := recover(); r != nil {
			err = t.failure(ctx, r)
		}
	}()
	t.inside = nil
	f(ctx, t)
	return nil
}

// cycleCalls makes the plugin calls of the scheduling loop. A section is a sequence of calls, e.g. Filter for all nodes.
// cycleCalls hands a section to a worker goroutine and watches the worker's progress, which costs much less than a
// goroutine and a timer for each call. A section whose plugins are all cooperative runs in the loop itself. A cycleCalls
// belongs to the loop.
type cycleCalls struct {
	loop    tracker // of the sections that run in the loop
	timeout time.Duration
	sites   []*site // of the profiles in force
	worker  *worker
	timer   clock.Timer
	armed   bool
	// abandoned is called when a worker was abandoned in a call at that site. The call may still read what it was given.
	abandoned func(*site)
}

// worker runs sections until its channel is closed or it is abandoned.
type worker struct {
	ctx    context.Context //nolint:containedctx // canceled when the worker is abandoned
	cancel context.CancelCauseFunc
	jobs   chan func(context.Context, *tracker)
	done   chan *pluginFailure
	*tracker
}

// tracker shows the loop which call a worker is making.
type tracker struct {
	index  atomic.Uint64 // of the site of the last call, in setup.sites; 0: none in this section
	inside *site         // nil between calls
	signal atomic.Int32
	times  *callTimes // nil: calls are not measured
}

// Values of tracker.signal. The loop requests progress when its timer fires, and requests a stop when the worker has made
// none by the time that it fires again. A worker whose call returns then ends its section itself; one that does not is
// abandoned.
const (
	noSignal int32 = iota
	progressRequested
	ended // the section has ended
	stopRequested
	stopped
	abandoned
)

// stopGrace is how long a worker has to end after a requested stop.
const stopGrace = 100 * time.Millisecond

// enter is called before the calls at a site. Between two sites of a loop that does little else, leave can be omitted: the time until the next
// enter then counts as that of the first one.
func (t *tracker) enter(s *site) {
	if t.inside != nil {
		t.step()
	}
	if s.hung.Load() > 0 {
		panic(&pluginFailure{at: s, err: errSuspended})
	}
	if t.times != nil && t.times.at != s.index {
		t.times.enter(s.index)
	}
	t.inside = s
	t.index.Store(s.index)
	t.step()
}

// step is called after each call at a site. If the call exceeded its time-out, step ends the section.
func (t *tracker) step() {
	if t.signal.Load() != noSignal {
		t.handleSignal()
	}
}

// leave is called after the last call at a site.
func (t *tracker) leave() {
	t.step()
	if t.times != nil && t.times.at != 0 {
		t.times.enter(0)
	}
	t.inside = nil
}

func (t *tracker) handleSignal() {
	switch {
	case t.signal.CompareAndSwap(progressRequested, noSignal):
	case t.signal.CompareAndSwap(stopRequested, stopped):
		panic(errStop)
	default:
		runtime.Goexit() // section does the rest
	}
}

// end marks the section as ended, and reports whether the loop still waits for it.
func (t *tracker) end() bool {
	return t.signal.CompareAndSwap(noSignal, ended) || t.signal.CompareAndSwap(progressRequested, ended) || t.signal.CompareAndSwap(stopRequested, stopped) || t.signal.Load() == stopped
}

// errStop ends a section whose call was too long and has returned after all.
var errStop = errors.New("stopped")

// do runs a section, f, which surrounds each call of a plugin by enter and leave. The section ends at the first call that
// fails. cooperative is true if all plugins of the section are.
func (c *cycleCalls) do(ctx context.Context, cooperative bool, f func(context.Context, *tracker)) *pluginFailure {
	if cooperative {
		return c.loop.inline(ctx, f)
	}
	w := c.worker
	if w == nil {
		w = &worker{jobs: make(chan func(context.Context, *tracker)), done: make(chan *pluginFailure, 1), tracker: &tracker{}}
		w.ctx, w.cancel = context.WithCancelCause(ctx)
		c.worker = w
		go w.run()
	}
	w.signal.Store(noSignal)
	w.index.Store(0)
	w.jobs <- f
	return c.wait(ctx, w)
}

// wait waits for the end of the worker's section, as long as its calls keep to their time-outs.
func (c *cycleCalls) wait(ctx context.Context, w *worker) *pluginFailure {
	if !c.armed {
		c.arm()
	}
	for {
		select {
		case err := <-w.done:
			return c.finish(w, err)
		case <-c.timer.C():
			if w.signal.Load() == progressRequested && w.index.Load() != 0 {
				return c.interrupt(ctx, w, c.sites[w.index.Load()])
			}
			w.signal.CompareAndSwap(noSignal, progressRequested)
			c.arm()
		}
	}
}

func (c *cycleCalls) arm() {
	if c.timer == nil {
		c.timer = wallClock.NewTimer(c.timeout)
	} else {
		c.timer.Reset(c.timeout)
	}
	c.armed = true
}

// finish takes the worker out of use when its goroutine has ended.
func (c *cycleCalls) finish(w *worker, err *pluginFailure) *pluginFailure {
	if err != nil && errors.Is(err, errGoexit) {
		c.worker = nil
		w.cancel(nil)
	}
	return err
}

// interrupt ends a section in a call that exceeds its time-out. A worker that does not react is abandoned.
func (c *cycleCalls) interrupt(ctx context.Context, w *worker, at *site) *pluginFailure {
	c.armed = false
	if !w.signal.CompareAndSwap(progressRequested, stopRequested) {
		return c.wait(ctx, w)
	}
	err := &pluginFailure{at: at, err: errTimeout(c.timeout)}
	err.log(ctx, nil)
	c.worker = nil
	w.cancel(err)
	defer close(w.jobs)
	c.timer.Reset(stopGrace)
	select {
	case <-w.done:
		return err
	case <-c.timer.C():
	}
	at.hung.Add(1)
	if !w.signal.CompareAndSwap(stopRequested, abandoned) {
		<-w.done
		at.hung.Add(-1)
		return err
	}
	err.abandoned = true
	if c.abandoned != nil {
		c.abandoned(at)
	}
	return err
}

// close ends the worker.
func (c *cycleCalls) close() {
	if c.timer != nil {
		c.timer.Stop()
	}
	if w := c.worker; w != nil {
		c.worker = nil
		close(w.jobs)
		w.cancel(nil)
	}
}

func (w *worker) run() {
	for f := range w.jobs {
		w.section(f)
	}
}

// section runs one section and reports how it ended.
func (w *worker) section(f func(context.Context, *tracker)) {
	err := &pluginFailure{err: errGoexit}
	defer func() {
		if r := recover(); r != nil {
			err = w.failure(w.ctx, r)
		} else if err != nil {
			err.at = w.inside
		}
		if !w.end() {
			w.inside.returned()
			return
		}
		w.inside = nil
		w.done <- err
	}()
	f(w.ctx, w.tracker)
	err = nil
}

// failure returns what a panic of a section means.
func (t *tracker) failure(ctx context.Context, r any) *pluginFailure {
	switch f := r.(type) {
	case *pluginFailure:
		return f
	case error:
		if errors.Is(f, errStop) {
			return &pluginFailure{at: t.inside, err: errStop}
		}
	}
	f := &pluginFailure{at: t.inside, err: errPanic(r)}
	f.log(ctx, debug.Stack())
	return f
}
