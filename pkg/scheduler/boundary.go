package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The boundary between the engine and its plugins. Every call of a plugin is made by call, or by a cycleCalls when the
// scheduling loop makes many calls in a row. A panic becomes an error of the pod. A call that exceeds its time-out has its
// context canceled and is abandoned: its goroutine ends when the call returns, and until then the plugin is suspended, so
// that each of its further calls fails at once. A plugin's own goroutines are beyond this boundary: a panic in one of them
// ends the process.
//
// Only a call on another goroutine can be abandoned, and the change of goroutine costs more than most calls. Cooperative
// plugins never have to be abandoned, so their calls run on the caller's goroutine.

const (
	// cycleTimeout bounds a call in the scheduling cycle, during which no other pod is scheduled.
	cycleTimeout = 10 * time.Second
	// bindingTimeout bounds a call in a binding cycle. Binding plugins may wait for volumes or devices.
	bindingTimeout = 15 * time.Minute
	// stopTimeout bounds how long a call may outlast the scheduler.
	stopTimeout = 5 * time.Second
	// maxBindingCalls bounds how many calls of one plugin are under way in binding cycles.
	maxBindingCalls = 1024
)

// wallClock measures plugin calls, also in a cluster whose clock is moved by hand.
var wallClock = clock.Real()

// instance is a plugin of a profile.
type instance struct {
	framework.Plugin
	name   string
	handle *handle
	given  kruntime.Object // the configured arguments
	// cooperative is true if the plugin is Cooperative.
	cooperative bool
	hung        atomic.Int32 // abandoned calls that have not returned
	running     atomic.Int32 // calls in progress through the function call
	lastLog     atomic.Int64 // when a failure was last logged, in Unix nanoseconds
	resumed     func(*instance)
	timeouts    timeouts
}

// timeouts are the time-outs of plugin calls.
type timeouts struct{ cycle, binding time.Duration }

// site is an extension point of an instance.
type site struct {
	*instance
	point string
	index uint64 // in setup.sites
}

// pluginFailure is a call that panicked, exceeded its time-out, or was not made because the plugin is suspended.
type pluginFailure struct {
	at        *site // nil: the engine panicked
	err       error
	abandoned bool // the call still runs
}

func (f *pluginFailure) Error() string {
	if f.at == nil {
		return f.err.Error()
	}
	return fmt.Sprintf("running %s plugin %q: %v", f.at.point, f.at.name, f.err)
}

func (f *pluginFailure) Unwrap() error { return f.err }

// status returns the failure as the status of the pod's attempt.
func (f *pluginFailure) status() *framework.Status {
	s := framework.AsStatus(f)
	if f.at != nil {
		return s.WithPlugin(f.at.name)
	}
	return s
}

var (
	errSuspended = errors.New("the plugin is suspended: an earlier call has exceeded its time-out and has not returned")
	errTooMany   = fmt.Errorf("%d calls of the plugin are under way", maxBindingCalls)
	errGoexit    = errors.New("the plugin ended its goroutine")
)

func errTimeout(d time.Duration) error { return fmt.Errorf("the plugin did not return within %v", d) }

func errPanic(r any) error {
	if err, ok := r.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", r)
}

// logEvery bounds how often the failures of one plugin are logged.
const logEvery = int64(time.Minute)

// log logs a failure, unless one of the same plugin was logged within the last minute.
func (f *pluginFailure) log(ctx context.Context, stack []byte) {
	if f.at != nil && !f.at.mayLog() {
		return
	}
	slog.ErrorContext(ctx, "scheduler plugin failed", "err", f.Error(), "stack", string(stack))
}

// mayLog reports whether the caller may log a failure: at most one of the instance is logged in logEvery.
func (p *instance) mayLog() bool {
	now, last := wallClock.Now().UnixNano(), p.lastLog.Load()
	return (now-last >= logEvery || last == 0) && p.lastLog.CompareAndSwap(last, now)
}

// admit returns why the instance may not be called now, or nil.
func (s *site) admit() *pluginFailure {
	switch {
	case s.hung.Load() > 0:
		return &pluginFailure{at: s, err: errSuspended}
	case s.running.Load() >= maxBindingCalls:
		return &pluginFailure{at: s, err: errTooMany}
	}
	return nil
}

// States of a call.
const (
	callRunning int32 = iota
	callReturned
	callAbandoned
)

// outcome is what a call returned, or how it failed.
type outcome[T any] struct {
	value T
	err   *pluginFailure
}

// call calls f, which calls one method of the instance, and waits at most timeout for it. Unless the plugin is
// cooperative, f runs on a new goroutine.
func call[T any](ctx context.Context, s *site, timeout time.Duration, f func(context.Context) T) (T, *pluginFailure) {
	if s.cooperative {
		return callInline(ctx, s, timeout, f)
	}
	var none T
	if err := s.admit(); err != nil {
		return none, err
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan outcome[T], 1)
	var state atomic.Int32
	go func() {
		out := outcome[T]{err: &pluginFailure{at: s, err: errGoexit}}
		defer func() {
			if r := recover(); r != nil {
				out.err = &pluginFailure{at: s, err: errPanic(r)}
				out.err.log(ctx, debug.Stack())
			}
			s.running.Add(-1)
			if !state.CompareAndSwap(callRunning, callReturned) {
				s.returned()
			}
			done <- out
		}()
		out = outcome[T]{value: f(ctx)}
	}()
	timer := wallClock.NewTimer(timeout)
	defer timer.Stop()
	stopping := ctx.Done()
	for {
		select {
		case out := <-done:
			return out.value, out.err
		case <-stopping:
			stopping = nil
			timer.Reset(min(timeout, stopTimeout))
		case <-timer.C():
			if !state.CompareAndSwap(callRunning, callAbandoned) {
				out := <-done
				return out.value, out.err
			}
			err := &pluginFailure{at: s, err: errTimeout(timeout), abandoned: true}
			s.hung.Add(1)
			cancel(err)
			err.log(ctx, nil)
			return none, err
		}
	}
}

// callInline calls f on the caller's goroutine. The context ends after the time-out.
func callInline[T any](ctx context.Context, s *site, timeout time.Duration, f func(context.Context) T) (value T, err *pluginFailure) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			err = &pluginFailure{at: s, err: errPanic(r)}
			err.log(ctx, debug.Stack())
		}
	}()
	return f(ctx), nil
}

// returned counts an abandoned call that has returned. The plugin is resumed when none is left.
func (p *instance) returned() {
	if p.hung.Add(-1) == 0 && p.resumed != nil {
		p.resumed(p)
	}
}

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

// parallelizer is the number of goroutines that run pieces of work. A panic in one of them is raised again in the caller.
type parallelizer int

// Until implements framework.Parallelizer.
func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var raised any
	for range min(int(p), pieces) {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { raised = r })
				}
			}()
			for ctx.Err() == nil {
				piece := int(next.Add(1)) - 1
				if piece >= pieces {
					return
				}
				do(piece)
			}
		})
	}
	wg.Wait()
	if raised != nil {
		panic(raised)
	}
}
