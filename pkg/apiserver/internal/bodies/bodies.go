// Package bodies owns the limit of the large bodies that are handled at a time. Decoding, merging and validating a body takes up to
// sixty times its size in memory, so that a few dozen large bodies at once would take gigabytes; one after the other they take as
// long and little memory.
package bodies

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// ErrBusy is the error of a body that would have to wait too long, or behind too many.
var ErrBusy = errors.New("too many large bodies")

// Config holds the limits, in bytes.
type Config struct {
	Small        int // smaller bodies are always handled
	Large        int // the sum of the other bodies that are handled at a time; a body that is larger is handled alone
	Waiting      int // the sum of the bodies that wait
	PerUser      int // the sum of one user's bodies that wait
	QueueTimeout time.Duration
	Clock        clock.Clock
}

// Limit admits bodies. A free place goes to the user with the fewest admitted bytes, and among equals to the oldest body. It is safe
// for concurrent use.
type Limit struct {
	cfg Config

	mu       sync.Mutex
	free     int
	admitted map[string]int // bytes, by user
	queue    []*waiter      // the oldest first
}

type waiter struct {
	user     string
	size     int
	admitted chan struct{}
}

// New returns a limit without bodies.
func New(cfg Config) *Limit {
	return &Limit{cfg: cfg, free: cfg.Large, admitted: map[string]int{}}
}

// Enter admits a body of a user, or waits. The error is ErrBusy, or ctx's. Without an error the caller must call done once.
func (l *Limit) Enter(ctx context.Context, user string, size int) (done func(), err error) {
	if size < l.cfg.Small {
		return func() {}, nil
	}
	w := &waiter{user: user, size: min(size, l.cfg.Large), admitted: make(chan struct{})}
	if !l.enqueue(w) {
		return nil, ErrBusy
	}
	timer := l.cfg.Clock.NewTimer(l.cfg.QueueTimeout)
	defer timer.Stop()
	select {
	case <-w.admitted:
	case <-timer.C():
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil && l.cancelWait(w) {
		return nil, err
	}
	return func() { l.leave(w) }, nil
}

// enqueue adds a waiter, which may be admitted at once, unless too many wait.
func (l *Limit) enqueue(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, users := w.size, w.size
	for _, other := range l.queue {
		all += other.size
		if other.user == w.user {
			users += other.size
		}
	}
	if len(l.queue) > 0 && (all > l.cfg.Waiting || users > l.cfg.PerUser) {
		return false
	}
	l.queue = append(l.queue, w)
	l.admit()
	return true
}

// admit admits waiters while there is room. l.mu must be held.
func (l *Limit) admit() {
	for len(l.queue) > 0 {
		next := 0
		for i, w := range l.queue {
			if l.admitted[w.user] < l.admitted[l.queue[next].user] {
				next = i
			}
		}
		w := l.queue[next]
		if w.size > l.free {
			return // smaller bodies wait behind it, or it might wait forever
		}
		l.queue = append(l.queue[:next], l.queue[next+1:]...)
		l.free -= w.size
		l.admitted[w.user] += w.size
		close(w.admitted)
	}
}

// cancelWait removes a waiter, unless it has been admitted.
func (l *Limit) cancelWait(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.queue {
		if other == w {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			l.admit()
			return true
		}
	}
	return false
}

func (l *Limit) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free += w.size
	if l.admitted[w.user] -= w.size; l.admitted[w.user] == 0 {
		delete(l.admitted, w.user)
	}
	l.admit()
}
