package clock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// takers returns a clock with turns, and a function that starts goroutines which each take a turn and note it, once nothing is busy.
func takers(t *testing.T) (*clock.Manual, *journal, func(ranks ...clock.Rank)) {
	m := clock.NewManual(began, clock.Real())
	m.TakeTurns()
	j := &journal{clock: m}
	return m, j, func(ranks ...clock.Rank) {
		busy := clock.NewWork(m, "start")
		busy.Add(1)
		for _, r := range ranks {
			ctx, work := clock.Begin(t.Context(), m, "part")
			go func() {
				defer work.End()
				_, end := clock.TakeTurn(ctx, m, r)
				defer end()
				j.note(r.String())
			}()
		}
		busy.End()
	}
}

// TestTurnsComeByRank: the order of turns does not depend on which part has come first.
func TestTurnsComeByRank(t *testing.T) {
	for range 20 {
		m, j, start := takers(t)
		start(clock.Rank{Class: clock.Outside, Part: "a"}, clock.Rank{Part: "c", Key: "1"}, clock.Rank{Part: "b", Key: "2"},
			clock.Rank{Class: clock.Retry, Part: "b"}, clock.Rank{Part: "b", Key: "1"})
		advance(t, m, 0)
		j.want(t, "b 1 at 0s", "b 2 at 0s", "c 1 at 0s", "b at 0s", "a at 0s")
	}
}

// TestLaterRounds: a part that comes during a turn waits for those that were there before, whatever its rank.
func TestLaterRounds(t *testing.T) {
	m, j, start := takers(t)
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(ctx context.Context) {
		j.note("a")
		clock.GoTurn(ctx, m, clock.Rank{Part: "a", Key: "again"}, func(context.Context) { j.note("a again") })
	})
	start(clock.Rank{Part: "b"}, clock.Rank{Part: "c"})
	advance(t, m, 0)
	j.want(t, "a at 0s", "b at 0s", "c at 0s", "a again at 0s")
}

// TestTurnsWaitForWork: a turn begins when all work that follows from the one before is done.
func TestTurnsWaitForWork(t *testing.T) {
	m, j, start := takers(t)
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(ctx context.Context) {
		_, work := clock.Begin(ctx, m, "follows")
		go func() {
			defer work.End()
			time.Sleep(5 * time.Millisecond) // a turn that does not wait for this work begins before it ends
			j.note("follows")
		}()
	})
	start(clock.Rank{Part: "b"})
	advance(t, m, 0)
	j.want(t, "follows at 0s", "b at 0s")
}

// TestIdlePartGivesItsTurn: a part that sleeps or waits in its turn does not keep others waiting, and goes on in another turn.
func TestIdlePartGivesItsTurn(t *testing.T) {
	m, j, start := takers(t)
	ready := make(chan struct{})
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(ctx context.Context) {
		if err := clock.Sleep(ctx, m, time.Minute); err != nil {
			t.Error(err)
		}
		j.note("slept")
		clock.WorkOf(ctx).Idle(func() bool {
			select {
			case <-ready:
				return true
			default:
				return false
			}
		}, func() { <-ready })
		j.note("waited")
	})
	start(clock.Rank{Part: "b"})
	advance(t, m, 2*time.Minute)
	j.want(t, "b at 0s", "slept at 1m0s")
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "c"}, func(context.Context) {
		close(ready)
		j.note("c")
	})
	advance(t, m, 0)
	j.want(t, "c at 2m0s", "waited at 2m0s")
}

// TestYieldTurn: others act before the part goes on.
func TestYieldTurn(t *testing.T) {
	m, j, start := takers(t)
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(ctx context.Context) {
		j.note("a")
		if !clock.YieldTurn(ctx) {
			t.Error("there is no turn")
		}
		j.note("a goes on")
	})
	start(clock.Rank{Part: "b"}, clock.Rank{Class: clock.Outside, Part: "c"})
	advance(t, m, 0)
	j.want(t, "a at 0s", "b at 0s", "a goes on at 0s", "c at 0s")
}

// TestTurnIsTakenAway: a part that does not end its turn does not stop the cluster.
func TestTurnIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, j, start := takers(t)
		release := make(chan struct{})
		clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(context.Context) {
			<-release
			j.note("a")
		})
		from := time.Now()
		start(clock.Rank{Part: "b"})
		time.Sleep(11 * time.Second) // of the bubble's time: more than maxTurn
		j.want(t, "b at 0s")
		if got := m.Busy(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("busy are %v", got)
		}
		close(release)
		advance(t, m, 0)
		j.want(t, "a at 0s")
		if took := time.Since(from); took > 12*time.Second {
			t.Errorf("it has taken %s", took)
		}
	})
}

// TestTurnEndsWithContext: a part that ends takes no turn any more.
func TestTurnEndsWithContext(t *testing.T) {
	m, j, start := takers(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "a"}, func(context.Context) {
		clock.GoTurn(ctx, m, clock.Rank{Part: "b"}, func(ctx context.Context) {
			j.note(fmt.Sprintf("b: %v", ctx.Err()))
			close(ended)
		})
		cancel()
		<-ended
	})
	start(clock.Rank{Part: "c"})
	advance(t, m, 0)
	j.want(t, "b: context canceled at 0s", "c at 0s")
}

// TestNoTurns: on other clocks and without TakeTurns, nothing waits and nothing is allocated.
func TestNoTurns(t *testing.T) {
	for _, c := range []clock.Clock{clock.Real(), clock.NewManual(began, clock.Real())} {
		if n := testing.AllocsPerRun(100, func() {
			ctx, end := clock.TakeTurn(t.Context(), c, clock.Rank{Part: "a"})
			clock.Propagate(ctx)
			if clock.InTurns(c) || clock.YieldTurn(ctx) || clock.AtOnce(ctx, 7) != 7 {
				t.Error("there are turns")
			}
			end()
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestTurnAfterWrites: a turn of Rank.After comes in the middle of what the others do.
func TestTurnAfterWrites(t *testing.T) {
	m, j, _ := takers(t)
	var write func(n int) func(context.Context)
	write = func(n int) func(context.Context) {
		return func(ctx context.Context) {
			j.note(fmt.Sprintf("write %d", n))
			clock.Propagate(ctx)
			if n < 3 {
				clock.GoTurn(t.Context(), m, clock.Rank{Part: "writer"}, write(n+1))
			}
		}
	}
	clock.GoTurn(t.Context(), m, clock.Rank{Part: "first"}, func(ctx context.Context) {
		clock.GoTurn(t.Context(), m, clock.Rank{Part: "test", After: 2}, func(context.Context) { j.note("test") })
		write(1)(ctx)
	})
	advance(t, m, 0)
	j.want(t, "write 1 at 0s", "write 2 at 0s", "test at 0s", "write 3 at 0s")
}
