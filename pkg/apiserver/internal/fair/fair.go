// Package fair owns the limit of how many requests are answered at once, so that one greedy client cannot keep the others
// from being answered. Requests belong to flows, a user's each. While there are free seats everybody gets one at once, for
// the price of a lock and two map accesses. When there are none, requests wait, and a seat that becomes free goes to the
// flow that has the fewest, first come first served among its own requests.
package fair

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// ErrBusy means that a request was not let in.
var ErrBusy = errors.New("too many requests")

// Config says how much is let in.
type Config struct {
	Seats    int           // requests at once
	Queue    int           // requests of a flow that may wait
	Flows    int           // flows that may wait
	Patience time.Duration // how long a request may wait
	Clock    clock.Clock
}

// Limit lets requests in. It is safe for concurrent use.
type Limit struct {
	cfg Config

	mu      sync.Mutex
	free    int
	seated  map[string]int       // how many seats each flow has
	waiting map[string][]*waiter // the flows that wait, and who of them, in their order
	arrived uint64
}

// waiter is a request that waits for a seat.
type waiter struct {
	number uint64 // grows
	seat   chan struct{}
}

// New returns a limit with all seats free.
func New(cfg Config) *Limit {
	return &Limit{cfg: cfg, free: cfg.Seats, seated: map[string]int{}, waiting: map[string][]*waiter{}}
}

// Enter takes a seat for a request of flow, and waits for one if it must. The error is ErrBusy, or ctx's. Without an error
// the request is to Leave.
func (l *Limit) Enter(ctx context.Context, flow string) error {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.seated[flow]++
		l.mu.Unlock()
		return nil
	}
	w := l.wait(flow)
	l.mu.Unlock()
	if w == nil {
		return ErrBusy
	}
	timer := l.cfg.Clock.NewTimer(l.cfg.Patience)
	defer timer.Stop()
	var err error
	select {
	case <-w.seat:
		return nil
	case <-timer.C():
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if l.giveUp(flow, w) {
		return err
	}
	return nil // it has just got one
}

// wait puts a request behind the others of its flow; nil: there are too many. l.mu must be held.
func (l *Limit) wait(flow string) *waiter {
	queue := l.waiting[flow]
	if len(queue) >= l.cfg.Queue || queue == nil && len(l.waiting) >= l.cfg.Flows {
		return nil
	}
	l.arrived++
	w := &waiter{number: l.arrived, seat: make(chan struct{})}
	l.waiting[flow] = append(queue, w)
	return w
}

// giveUp takes back a request that waits, unless it has got a seat.
func (l *Limit) giveUp(flow string, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.waiting[flow]
	for i, other := range queue {
		if other == w {
			l.setQueue(flow, append(queue[:i:i], queue[i+1:]...))
			return true
		}
	}
	return false
}

// setQueue notes who of a flow waits. l.mu must be held.
func (l *Limit) setQueue(flow string, queue []*waiter) {
	if len(queue) == 0 {
		delete(l.waiting, flow)
		return
	}
	l.waiting[flow] = queue
}

// Leave gives a seat back, or on.
func (l *Limit) Leave(flow string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seated[flow]--; l.seated[flow] == 0 {
		delete(l.seated, flow)
	}
	next, ok := l.next()
	if !ok {
		l.free++
		return
	}
	queue := l.waiting[next]
	l.setQueue(next, queue[1:])
	l.seated[next]++
	close(queue[0].seat)
}

// next returns the flow whose turn it is: of those that wait the one with the fewest seats, and of those the one that has
// waited longest. l.mu must be held.
func (l *Limit) next() (string, bool) {
	best, found := "", false
	for flow, queue := range l.waiting {
		if !found || l.before(flow, queue[0], best, l.waiting[best][0]) {
			best, found = flow, true
		}
	}
	return best, found
}

func (l *Limit) before(a string, first *waiter, b string, second *waiter) bool {
	if l.seated[a] != l.seated[b] {
		return l.seated[a] < l.seated[b]
	}
	return first.number < second.number
}
