package client

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/minikctl/minikctl/pkg/trace"
)

// queuedEvents is how many events wait at most to be written.
const queuedEvents = 4096

// pending is a queued event of either kind.
type pending struct {
	core   *corev1.Event
	stamp  int64 // in core's name
	action *eventsv1.Event
	report trace.Report
}

// pendingEvents is a queue of events that takes memory only for those that wait: there are dozens of recorders, and nearly all are
// idle. It is safe for concurrent use.
type pendingEvents struct {
	ready chan struct{} // has an element while there are events

	mu    sync.Mutex
	items []pending // the oldest first
}

func newPendingEvents() *pendingEvents { return &pendingEvents{ready: make(chan struct{}, 1)} }

// add adds an event. It reports false if the queue is full.
func (q *pendingEvents) add(p pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= queuedEvents {
		return false
	}
	q.items = append(q.items, p)
	q.signal()
	return true
}

// take removes the oldest event. The caller has received from ready.
func (q *pendingEvents) take() pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.items[0]
	q.items[0] = pending{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
		return p
	}
	q.signal()
	return p
}

func (q *pendingEvents) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

func (q *pendingEvents) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
