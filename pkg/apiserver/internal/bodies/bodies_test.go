package bodies_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
)

const queueTimeout = 15 * time.Second

func newLimit() (*bodies.Limit, *testclock.FakeClock) {
	clk := testclock.NewFakeClock(time.Unix(0, 0))
	return bodies.New(bodies.Config{Small: 10, Large: 100, Waiting: 300, PerUser: 200, QueueTimeout: queueTimeout, Clock: clk}), clk
}

type outcome struct {
	user string
	done func()
	err  error
}

// enter enters bodies in order, each after the one before waits or has been admitted.
type enter struct {
	t        *testing.T
	limit    *bodies.Limit
	clk      *testclock.FakeClock
	outcomes chan outcome
	waiting  int
}

// wait starts a body that has to wait.
func (e *enter) wait(user string, size int) {
	e.waiting++
	go func() {
		done, err := e.limit.Enter(context.Background(), user, size)
		e.outcomes <- outcome{user, done, err}
	}()
	for e.clk.Waiters() < e.waiting {
		runtime.Gosched()
	}
}

func (e *enter) next(want string) outcome {
	e.t.Helper()
	o := <-e.outcomes
	if o.user != want || o.err != nil {
		e.t.Fatalf("%s, %v is next, not %s", o.user, o.err, want)
	}
	return o
}

func take(t *testing.T, l *bodies.Limit, user string, size int) func() {
	t.Helper()
	done, err := l.Enter(t.Context(), user, size)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestAdmissionOrder admits waiting bodies: first those of the user with fewer admitted bytes, small ones at once, a huge one alone.
func TestAdmissionOrder(t *testing.T) {
	l, clk := newLimit()
	e := &enter{t: t, limit: l, clk: clk, outcomes: make(chan outcome)}
	first, second := take(t, l, "a", 50), take(t, l, "b", 50)
	take(t, l, "a", 9)()
	e.wait("a", 50)
	e.wait("a", 50)
	e.wait("b", 50)
	e.wait("c", 1000) // counts as 100
	second()
	e.next("b").done()
	select {
	case o := <-e.outcomes: // c is next, and does not fit
		t.Fatalf("%s does not wait", o.user)
	default:
	}
	first() // now no body of a is admitted, either, and a has waited longer
	e.next("a").done()
	e.next("a").done()
	e.next("c").done()
}

// TestQueueIsFull fills the queue of a user, and the whole.
func TestQueueIsFull(t *testing.T) {
	l, clk := newLimit()
	e := &enter{t: t, limit: l, clk: clk, outcomes: make(chan outcome, 10)}
	done := take(t, l, "a", 100)
	e.wait("a", 100)
	e.wait("a", 100)
	if _, err := l.Enter(t.Context(), "a", 10); !errors.Is(err, bodies.ErrBusy) {
		t.Errorf("a third one of a user: %v", err)
	}
	e.wait("b", 100)
	if _, err := l.Enter(t.Context(), "c", 10); !errors.Is(err, bodies.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	done()
	for range 3 {
		(<-e.outcomes).done()
	}
	take(t, l, "c", 100)()
}

// TestQueueTimeout checks that a body stops waiting after the queue timeout, or when its request ends.
func TestQueueTimeout(t *testing.T) {
	l, clk := newLimit()
	e := &enter{t: t, limit: l, clk: clk, outcomes: make(chan outcome)}
	done := take(t, l, "a", 100)
	e.wait("b", 50)
	clk.Step(queueTimeout)
	if o := <-e.outcomes; !errors.Is(o.err, bodies.ErrBusy) {
		t.Errorf("after the queue timeout: %v", o.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Enter(ctx, "b", 50); !errors.Is(err, context.Canceled) {
		t.Errorf("after its request: %v", err)
	}
	done()
	take(t, l, "b", 100)()
}
