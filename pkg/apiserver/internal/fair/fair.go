// Package fair bounds the number of requests that the server handles at a time, fairly among users, so that one client
// cannot use all of its capacity. The requests of a user are a flow. A seat is the permission to run one request. While
// there are free seats a request gets one at once, at the cost of a lock and two map accesses. Otherwise it waits: a free
// seat goes to the flow with the fewest seats, and in a flow to its oldest request.
package fair

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// ErrBusy is the error of a request that gets no seat.
var ErrBusy = errors.New("too many requests")

// Config holds the limits.
type Config struct {
	Seats    int           // requests at once
	Queue    int           // requests of a flow that may wait
	Flows    int           // flows that may wait
	Patience time.Duration // how long a request may wait
	Clock    clock.Clock
}

// Limit gives seats to requests. It is safe for concurrent use.
type Limit struct {
	cfg Config

	mu      sync.Mutex
	free    int
	seated  map[string]int       // the number of seats of each flow
	waiting map[string][]*waiter // the waiting requests of each flow, the oldest first
	arrived uint64
}

// waiter is a request that waits for a seat.
type waiter struct {
	number uint64 // increases from waiter to waiter: the lowest has waited longest
	seat   chan struct{}
}

// New returns a limit with all seats free.
func New(cfg Config) *Limit {
	return &Limit{cfg: cfg, free: cfg.Seats, seated: map[string]int{}, waiting: map[string][]*waiter{}}
}

// Enter takes a seat for a request of flow, or waits for one. The error is ErrBusy, or ctx's. Without an error the caller
// must call Leave.
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
	return nil // it was given a seat at the same moment
}

// wait adds a request to the waiting ones of its flow; nil: there are too many. l.mu must be held.
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

// giveUp removes a waiting request, unless it has got a seat.
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

// setQueue sets the waiting requests of a flow. l.mu must be held.
func (l *Limit) setQueue(flow string, queue []*waiter) {
	if len(queue) == 0 {
		delete(l.waiting, flow)
		return
	}
	l.waiting[flow] = queue
}

// Leave passes the seat of a finished request to a waiting request, or frees it.
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

// next returns the waiting flow with the fewest seats, among equals the one that has waited longest. l.mu must be held.
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
