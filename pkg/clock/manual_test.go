package clock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// journal records what happened at which time of a clock.
type journal struct {
	clock clock.Clock
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s at %s", what, j.clock.Since(began)))
}

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("got %q, want %q", j.lines, want)
	}
	j.lines = nil
}

func advance(t *testing.T, m *clock.Manual, d time.Duration) clock.Progress {
	t.Helper()
	p, err := m.Advance(t.Context(), m.Now().Add(d), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAdvanceFiresTimersInOrder: each timer fires at its own time, also those that others have started meanwhile.
func TestAdvanceFiresTimersInOrder(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	j := &journal{clock: m}
	m.AfterFunc(3*time.Second, func() { j.note("third") })
	m.AfterFunc(time.Second, func() {
		j.note("first")
		m.AfterFunc(time.Second, func() { j.note("second") })
	})
	stopped := m.AfterFunc(2*time.Second, func() { j.note("stopped") })
	reset := m.AfterFunc(time.Second, func() { j.note("reset") })
	if !stopped.Stop() || stopped.Stop() || !reset.Reset(4*time.Second) {
		t.Error("Stop and Reset report that the timer waits, and only then")
	}
	if p := advance(t, m, 3*time.Second); p.Steps != 3 || !p.Time.Equal(began.Add(3*time.Second)) {
		t.Errorf("got %+v", p)
	}
	j.want(t, "first at 1s", "second at 2s", "third at 3s")
	advance(t, m, time.Hour)
	j.want(t, "reset at 4s")
	if got := m.Since(began); got != time.Hour+3*time.Second {
		t.Errorf("the time is %s", got)
	}
	if advance(t, m, -time.Hour); m.Since(began) != time.Hour+3*time.Second {
		t.Error("the time went back")
	}
}

// TestTickerTicksAtEachPeriod: a tick is lost only if nothing has received the one before.
func TestTickerTicksAtEachPeriod(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	tick := m.NewTicker(time.Minute)
	for i := range 3 {
		advance(t, m, time.Minute)
		if got := (<-tick.C()).Sub(began); got != time.Duration(i+1)*time.Minute {
			t.Errorf("tick %d is at %s", i, got)
		}
	}
	tick.Stop()
	advance(t, m, time.Hour)
	select {
	case <-tick.C():
		t.Error("a stopped ticker ticks")
	default:
	}
}

// TestAdvanceWaitsForSleepers: the work of a goroutine after each Sleep is done before the next timer fires.
func TestAdvanceWaitsForSleepers(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	j := &journal{clock: m}
	ctx, work := clock.Begin(t.Context(), m, "sleeper")
	go func() {
		defer work.End()
		for i := 0; i < 3 && clock.Sleep(ctx, m, time.Minute) == nil; i++ {
			time.Sleep(5 * time.Millisecond) // an Advance that does not wait ends before it
			j.note("awake")
		}
	}()
	advance(t, m, time.Hour)
	j.want(t, "awake at 1m0s", "awake at 2m0s", "awake at 3m0s")
}

// TestAdvanceFollowsWork: work that passes from one part to the next is never lost on its way.
func TestAdvanceFollowsWork(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	const hops, rounds = 20, 200
	ends := make(chan int, rounds)
	in := make(chan int, 1)
	first := in
	counts := make([]*clock.Work, hops)
	for i := range hops {
		counts[i] = clock.NewWork(m, "hop")
		out := make(chan int, 1)
		go func(in chan int) {
			for n := range in {
				if i+1 < hops {
					counts[i+1].Add(1)
					out <- n
				} else {
					ends <- n
				}
				counts[i].Add(-1)
			}
			close(out)
		}(in)
		in = out
	}
	for n := range rounds {
		m.AfterFunc(time.Second, func() {
			counts[0].Add(1)
			first <- n
		})
		advance(t, m, time.Second)
		if len(ends) != n+1 {
			t.Fatalf("Advance %d returned while the work was on its way", n)
		}
	}
	close(first)
}

// TestIdle: a part that waits for a queue is busy while the queue has something for it.
func TestIdle(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	j := &journal{clock: m}
	var mu sync.Mutex
	full, wake := false, make(chan struct{}, 1)
	pending := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return full
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, work := clock.Begin(ctx, m, "reader")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer work.End()
		for ctx.Err() == nil {
			work.Idle(pending, func() {
				select {
				case <-wake:
				case <-ctx.Done():
				}
			})
			if pending() {
				j.note("read")
				mu.Lock()
				full = false
				mu.Unlock()
			}
		}
	}()
	m.AfterFunc(time.Second, func() {
		mu.Lock()
		full = true
		mu.Unlock()
		go func() {
			time.Sleep(time.Millisecond)
			wake <- struct{}{}
		}()
	})
	advance(t, m, time.Minute)
	j.want(t, "read at 1s")
	cancel()
	<-ended
}

// TestNotSettled: the error of an Advance names the parts that have something to do, and the time has not moved on.
func TestNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(began, clock.Real())
		queue := clock.NewWork(m, "keys of a controller")
		m.AfterFunc(time.Second, func() { queue.Add(2) })
		_, err := m.Advance(t.Context(), began.Add(time.Minute), 0)
		if _, ok := errors.AsType[*clock.NotSettledError](err); !ok || !strings.HasSuffix(err.Error(), "at 2026-01-01T00:00:01Z; still busy: keys of a controller (2)") {
			t.Fatalf("got %v", err)
		}
		queue.Add(-2)
		advance(t, m, time.Minute)
	})
}

// TestSleepEndsWithContext: a goroutine whose Sleep ends with its context is busy again.
func TestSleepEndsWithContext(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	ctx, cancel := context.WithCancel(t.Context())
	ctx, work := clock.Begin(ctx, m, "sleeper")
	done := make(chan error)
	go func() { done <- clock.Sleep(ctx, m, time.Minute) }()
	advance(t, m, time.Second) // only once it sleeps
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	work.End()
	advance(t, m, time.Hour)
}

// TestNothingIsCountedOnOtherClocks: there is no Work, and its methods do nothing.
func TestNothingIsCountedOnOtherClocks(t *testing.T) {
	ctx, work := clock.Begin(t.Context(), clock.Real(), "part")
	if work != nil || ctx != t.Context() {
		t.Error("there is a Work")
	}
	called := false
	work.Add(1)
	work.Idle(nil, func() { called = true })
	work.End()
	if !called {
		t.Error("Idle has not called its function")
	}
	if n := testing.AllocsPerRun(100, func() {
		_, work := clock.Begin(ctx, clock.Real(), "part")
		work.Add(1)
		work.End()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEachTimeIsSavedFirst: a time that could not be saved is not reached.
func TestEachTimeIsSavedFirst(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	saved := began
	m.OnMove(func(to time.Time) error {
		if to.After(began.Add(2 * time.Second)) {
			return errors.New("disk full")
		}
		saved = to
		return nil
	})
	for i := range 3 {
		m.AfterFunc(time.Duration(i+1)*time.Second, func() {
			if m.Now().After(saved) {
				t.Errorf("%s is not saved", m.Now())
			}
		})
	}
	if _, err := m.Advance(t.Context(), began.Add(time.Hour), 0); err == nil || err.Error() != "save the cluster's time: disk full" {
		t.Errorf("got %v", err)
	}
	if got := m.Since(began); got != 2*time.Second {
		t.Errorf("the time is %s", got)
	}
}

// TestBudget: an Advance stops between two steps when its machine time is over.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(began, clock.Real())
		for i := range 10 {
			m.AfterFunc(time.Duration(i+1)*time.Hour, func() { time.Sleep(time.Second) })
		}
		p, err := m.Advance(t.Context(), began.Add(24*time.Hour), 3500*time.Millisecond)
		if err != nil || p.Steps != 4 || p.Time.Sub(began) != 4*time.Hour {
			t.Errorf("got %+v, %v", p, err)
		}
	})
}

// TestFastClock runs a clock sixty times as fast as the machine's.
func TestFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		real := time.Now()
		f := clock.NewFast(real, began, 60, clock.Real())
		j := &journal{clock: f}
		f.AfterFunc(time.Minute, func() { j.note("function") })
		timer := f.NewTimer(time.Hour)
		if err := clock.Sleep(t.Context(), f, 30*time.Minute); err != nil {
			t.Fatal(err)
		}
		j.want(t, "function at 1m0s")
		if got := time.Since(real); got != 30*time.Second {
			t.Errorf("half an hour has taken %s", got)
		}
		if got := (<-timer.C()).Sub(began); got != time.Hour {
			t.Errorf("the timer has fired at %s", got)
		}
		if got := clock.At(f, real.Add(10*time.Second)).Sub(began); got != 10*time.Minute {
			t.Errorf("after 10s the time was %s", got)
		}
		if clock.Machine(f) != clock.Real() {
			t.Error("the machine's clock is another one")
		}
	})
}

// TestAt: a manual clock remembers when in machine time it reached its times.
func TestAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewManual(began, clock.Real())
		real := time.Now()
		for range 400 { // more than it remembers
			time.Sleep(time.Second)
			advance(t, m, time.Hour)
		}
		for _, c := range []struct{ machine, want time.Duration }{
			{400*time.Second + 5*time.Millisecond, 400 * time.Hour}, {399*time.Second + time.Millisecond, 399 * time.Hour}, {390500 * time.Millisecond, 390 * time.Hour},
		} {
			if got := clock.At(m, real.Add(c.machine)).Sub(began); got != c.want {
				t.Errorf("at %s it was %s, want %s", c.machine, got, c.want)
			}
		}
		if got := clock.At(m, real).Sub(began); got < 0 || got > 300*time.Hour {
			t.Errorf("long ago it was %s", got)
		}
	})
	if at := time.Now(); !clock.At(clock.Real(), at).Equal(at) {
		t.Error("the machine's clock shows another time")
	}
}

// TestAdvanceKeepsItsTime: the time is saved before each move, and kept before Advance returns.
func TestAdvanceKeepsItsTime(t *testing.T) {
	m := clock.NewManual(began, clock.Real())
	j := &journal{clock: m}
	m.OnMove(func(to time.Time) error {
		j.note("save " + to.Sub(began).String())
		return nil
	})
	failure := errors.New("no space left")
	var fails error
	m.OnAdvanced(func() error {
		j.note("keep")
		return fails
	})
	m.AfterFunc(time.Second, func() { j.note("timer") })
	advance(t, m, time.Minute)
	j.want(t, "save 1s at 0s", "timer at 1s", "save 1m0s at 1s", "keep at 1m0s")
	fails = failure
	if _, err := m.Advance(t.Context(), m.Now(), 0); !errors.Is(err, failure) {
		t.Errorf("got %v, want the error of keep", err)
	}
}

// TestSourceOf: a source for a use depends on the seed and the use, and not on earlier draws.
func TestSourceOf(t *testing.T) {
	a, b := clock.NewSource(1), clock.NewSource(1)
	a.UID()
	if got, want := a.Of("x").UID(), b.Of("x").UID(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if b.Of("x").UID() == b.Of("y").UID() || b.Of("x").UID() == clock.NewSource(2).Of("x").UID() {
		t.Error("two uses or two seeds give the same")
	}
}
