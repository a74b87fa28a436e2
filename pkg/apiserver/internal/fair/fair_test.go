package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

func newLimit(seats int) *Limit {
	return New(Config{Seats: seats, Queue: 3, Flows: 2, Patience: 10 * time.Second, Clock: clock.Real()})
}

func enter(t *testing.T, l *Limit, flow string) {
	t.Helper()
	if err := l.Enter(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
}

func TestTheOneWithFewestIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(4)
		for range 4 {
			enter(t, l, "greedy")
		}
		var mu sync.Mutex
		var order []string
		ask := func(flow string) {
			go func() {
				if err := l.Enter(t.Context(), flow); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, flow)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		for _, flow := range []string{"greedy", "greedy", "modest", "greedy", "modest", "modest"} {
			ask(flow)
		}
		for range 4 {
			l.Leave("greedy")
			synctest.Wait()
		}
		if got, want := fmt.Sprint(order), "[modest modest greedy greedy]"; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, flow := range []string{"modest", "modest", "modest", "greedy", "greedy", "greedy"} {
			l.Leave(flow)
			synctest.Wait()
		}
		if l.free != 4 || len(l.seated) != 0 || len(l.waiting) != 0 {
			t.Errorf("what is left: %d free, %v, %v", l.free, l.seated, l.waiting)
		}
	})
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(1)
		enter(t, l, "a")
		began := time.Now()
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if err := l.Enter(t.Context(), "a"); !errors.Is(err, ErrBusy) {
					t.Errorf("got %v after waiting", err)
				}
			})
		}
		gone, cancel := context.WithCancel(t.Context())
		waiting.Go(func() {
			if err := l.Enter(gone, "b"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v for one that has gone", err)
			}
		})
		synctest.Wait()
		for _, flow := range []string{"a", "c"} { // a full queue, and one flow too many
			if err := l.Enter(t.Context(), flow); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: got %v", flow, err)
			}
		}
		cancel()
		waiting.Wait()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("waited for %v", took)
		}
		l.Leave("a")
		if l.free != 1 || len(l.waiting) != 0 {
			t.Errorf("what is left: %d free, %v", l.free, l.waiting)
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	l := newLimit(1000)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := l.Enter(context.Background(), "a"); err != nil {
				b.Error(err)
			}
			l.Leave("a")
		}
	})
}
