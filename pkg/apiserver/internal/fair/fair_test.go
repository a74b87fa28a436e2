package fair

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

// bench is a limit whose requests a test sends and ends one by one, in a synctest bubble.
type bench struct {
	*testing.T
	*Limit
	mu    sync.Mutex
	order []string // the requests that have got seats
	seats map[string][]*Seat

	settled int // the part of order that is sorted
}

func newBench(t *testing.T, seats, perFlow int, levels ...Level) *bench {
	b := &bench{T: t, Limit: New(Config{Seats: seats, PerFlow: perFlow, QueueTimeout: 10 * time.Second, Clock: clock.Real()}), seats: map[string][]*Seat{}}
	b.SetLevels(levels)
	return b
}

// send sends requests of "LEVEL/FLOW", in order.
func (b *bench) send(width int, names ...string) {
	for _, name := range names {
		level, flow, _ := strings.Cut(name, "/")
		go func() {
			s := new(Seat)
			if err := b.Enter(b.Context(), s, level, Flow{Distinguisher: flow}, width); err != nil {
				b.Errorf("%s: %v", name, err)
				return
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.order = append(b.order, name)
			b.seats[name] = append(b.seats[name], s)
		}()
		b.settle()
	}
}

// settle waits until all requests run or wait. It sorts those that have got seats at the same time.
func (b *bench) settle() {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.order[b.settled:])
	b.settled = len(b.order)
}

// end ends the oldest running request of each name.
func (b *bench) end(names ...string) {
	b.Helper()
	for _, name := range names {
		b.mu.Lock()
		if len(b.seats[name]) == 0 {
			b.Fatalf("%s does not run", name)
		}
		s := b.seats[name][0]
		b.seats[name] = b.seats[name][1:]
		b.mu.Unlock()
		s.Leave()
		s.Leave() // no effect
		b.settle()
	}
}

// ran compares the requests that have got seats since the last call.
func (b *bench) ran(want string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := strings.Join(b.order, " "); got != want {
		b.Errorf("got %s, want %s", got, want)
	}
	b.order, b.settled = nil, 0
}

// empty ends all requests and checks that nothing is left.
func (b *bench) empty() {
	b.Helper()
	for again := true; again; {
		again = false
		for name := range b.seats {
			for len(b.seats[name]) > 0 {
				b.end(name)
				again = true
			}
		}
	}
	b.order, b.settled = nil, 0
	if b.free != b.cfg.Seats || b.waiting != 0 {
		b.Errorf("%d of %d seats are free, %d requests wait", b.free, b.cfg.Seats, b.waiting)
	}
	for name, lv := range b.levels {
		if lv.removed || lv.seats != 0 || lv.waiting != 0 || len(lv.flows) != 0 {
			b.Errorf("level %s: %+v", name, lv)
		}
	}
}

func times(n int, name string) []string { return strings.Fields(strings.Repeat(name+" ", n)) }

var open = Level{Name: "l", Shares: 1, Borrow: -1, PerFlow: 100, Waiting: 1000}

func TestFlowWithFewestSeatsIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4, 4, open)
		b.send(1, times(4, "l/greedy")...)
		b.ran("l/greedy l/greedy l/greedy l/greedy")
		b.send(1, "l/greedy", "l/greedy", "l/modest", "l/greedy", "l/modest", "l/modest")
		b.ran("")
		b.end(times(4, "l/greedy")...)
		b.ran("l/modest l/modest l/greedy l/greedy")
		b.empty()
	})
}

// TestOtherFlowRunsAtOnce has one flow take all it can: a request of another flow does not wait for any of its requests to end.
func TestOtherFlowRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 8, 4, open)
		b.send(1, times(90, "l/greedy")...)
		b.ran("l/greedy l/greedy l/greedy l/greedy")
		b.send(1, "l/modest", "l/modest")
		b.ran("l/modest l/modest")
		b.end("l/modest")
		b.ran("") // the greedy flow has what one flow may take
		b.empty()
	})
}

func TestRequestsWithSeveralSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 8, 4, open)
		b.send(3, "l/lists")
		b.ran("l/lists")
		b.send(1, "l/lists")
		b.ran("l/lists") // the flow's fourth seat
		b.send(3, "l/lists", "l/lists")
		b.send(1, "l/other", "l/other")
		b.ran("l/other l/other")
		b.end("l/lists")
		b.ran("l/lists") // the first list has ended
		b.end("l/lists")
		b.ran("") // the small request
		b.end("l/lists")
		b.ran("l/lists")
		b.empty()
	})
}

// TestWideRequest has a request that takes more seats than a flow may: it runs alone in its flow, and other flows go on.
func TestWideRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 8, 4, open)
		b.send(6, "l/lists", "l/lists")
		b.ran("l/lists")
		b.send(1, "l/other", "l/other", "l/other")
		b.ran("l/other l/other")
		b.end("l/lists")
		b.ran("l/lists") // its flow has no seat, and the other has two
		b.end("l/other")
		b.ran("l/other")
		b.empty()
	})
}

// TestLevels shares seats between levels: 3 to 1, of which the first lends no more than two thirds.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		high := Level{Name: "high", Shares: 3, Reserve: 33, Borrow: 0, PerFlow: 100, Waiting: 1000}
		low := Level{Name: "low", Shares: 1, Reserve: 0, Borrow: -1, PerFlow: 100, Waiting: 1000}
		b := newBench(t, 8, 8, high, low)
		b.send(1, times(10, "low/a")...)
		b.ran(strings.Join(times(6, "low/a"), " ")) // 2 are reserved
		b.send(1, times(4, "high/b")...)
		b.ran("high/b high/b")
		b.end("low/a", "low/a")
		b.ran("high/b high/b") // the level with fewer seats for its shares
		b.end("low/a")
		b.ran("low/a") // no request of high waits, and it has 4 of the 2 that it reserves
		b.empty()

		b.send(1, times(7, "high/b")...)
		b.ran(strings.Join(times(6, "high/b"), " ")) // it borrows none
		b.empty()
	})
}

func TestLevelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2, 2, open)
		b.send(1, times(4, "l/a")...)
		b.ran("l/a l/a")
		other := open
		other.Name = "other"
		b.SetLevels([]Level{other})
		b.send(1, "other/b", "unknown/c")
		b.ran("")
		b.end("l/a", "l/a")
		b.ran("other/b l/a") // requests of a removed level are completed
		b.end("l/a", "other/b")
		b.ran("l/a unknown/c")
		b.empty()
	})
}

func TestErrBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open
		l.PerFlow, l.Waiting = 2, 3
		b := newBench(t, 1, 1, l)
		b.send(1, "l/a")
		began := time.Now()
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				if err := b.Enter(t.Context(), new(Seat), "l", Flow{Distinguisher: "a"}, 1); !errors.Is(err, ErrBusy) {
					t.Errorf("got %v after waiting", err)
				}
			})
		}
		gone, cancel := context.WithCancel(t.Context())
		waiting.Go(func() {
			if err := b.Enter(gone, new(Seat), "l", Flow{Distinguisher: "b"}, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v for a canceled request", err)
			}
		})
		synctest.Wait()
		for _, flow := range []string{"a", "c"} { // a full queue, and a full level
			if err := b.Enter(t.Context(), new(Seat), "l", Flow{Distinguisher: flow}, 1); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: got %v", flow, err)
			}
		}
		cancel()
		waiting.Wait()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("waited for %v", took)
		}
		b.empty()
	})
}

// TestPause has a request wait for a program whose own request needs the only seat.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1, 1, open)
		b.send(1, "l/a", "l/b", "l/a")
		b.ran("l/a")
		s := b.seats["l/a"][0]
		resume, second := s.Pause(t.Context()), s.Pause(t.Context()) // two webhooks in parallel
		synctest.Wait()
		b.ran("l/b")
		second()
		resumed := false
		go func() { resume(); resumed = true }()
		synctest.Wait()
		if resumed {
			t.Error("resumed without a free seat")
		}
		b.end("l/b")
		if !resumed {
			t.Error("not resumed before a later request of its flow")
		}
		b.ran("")
		b.end("l/a")
		b.ran("l/a")
		b.empty()

		b.send(1, "l/a")
		ctx, cancel := context.WithCancel(t.Context())
		resume = b.seats["l/a"][0].Pause(ctx)
		b.send(1, "l/b")
		cancel()
		resume() // returns without a seat
		b.empty()
	})
}

func BenchmarkEnter(b *testing.B) {
	for _, levels := range []int{1, 8} {
		b.Run(fmt.Sprint(levels, " levels"), func(b *testing.B) {
			l := New(Config{Seats: 1000, PerFlow: 1000, Clock: clock.Real()})
			var all []Level
			for n := range levels {
				all = append(all, Level{Name: fmt.Sprint("l", n), Shares: 1, Reserve: 50, Borrow: -1})
			}
			l.SetLevels(all)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var s Seat
					if err := l.Enter(context.Background(), &s, "l0", Flow{"schema", "user"}, 1); err != nil {
						b.Error(err)
					}
					s.Leave()
				}
			})
		})
	}
}
