package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	// skipsBinding is true if the plugin SkipsBinding.
	skipsBinding bool
	hung         atomic.Int32 // abandoned calls that have not returned
	running      atomic.Int32 // calls in progress through the function call
	lastLog      atomic.Int64 // when a failure was last logged, in Unix nanoseconds
	resumed      func(*instance)
	timeouts     timeouts
}

// timeouts are the time-outs of plugin calls.
type timeouts struct{ cycle, binding time.Duration }

// passes reports whether the instance has nothing to do in a pod's binding cycle.
func (p *instance) passes(a *attempt) bool {
	return p.skipsBinding && a.state.GetSkipFilterPlugins().Has(p.name)
}

// site is an extension point of an instance.
type site struct {
	*instance
	point string
	index uint64 // in setup.sites

	evaluations prometheus.Counter // of calls in scheduling cycles; nil: they are not counted
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

// or returns the failure as a status; nil returns the status that the plugin returned.
func (f *pluginFailure) or(returned *framework.Status) *framework.Status {
	if f != nil {
		return f.status()
	}
	return returned
}

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

// parallelizer runs pieces of work in goroutines, and counts these by operation. A panic in one of them is raised again in the caller.
type parallelizer struct {
	workers int
	running *prometheus.GaugeVec
}

// Until implements framework.Parallelizer.
func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, operation string) {
	running := p.running.WithLabelValues(operation)
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var raised any
	for range min(p.workers, pieces) {
		wg.Go(func() {
			running.Inc()
			defer running.Dec()
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
