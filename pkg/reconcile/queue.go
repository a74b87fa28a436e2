package reconcile

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// queue is a workqueue that also holds the causes of its keys, and the keys that are added later.
type queue struct {
	keys     workqueue.TypedInterface[objects.Key]
	failures workqueue.TypedRateLimiter[objects.Key] // of reconciles that failed for another reason than a refusal
	refusals workqueue.TypedRateLimiter[objects.Key] // of reconciles whose request the API server has refused
	clock    clock.Clock
	machine  clock.Clock // measures reconciles and their cooldown
	work     *clock.Work // a unit for each key that is queued, being reconciled or cooling down, or that is retried soon

	// turn starts the reconcile of a key by clock.GoTurn, on a clock that lets one part of the cluster act at a time. nil: workers reconcile keys.
	turn func(key objects.Key, class clock.Class)

	mu           sync.Mutex
	states       map[objects.Key]*state // of keys that are queued, being reconciled or cooling down, or have causes
	waiting      map[objects.Key]*delay // keys that are added later
	shuttingDown bool
}

// state is the state of a key.
type state struct {
	causes     []uint64 // the revisions of the changes that enqueued it
	queued     bool     // in keys
	processing bool     // being reconciled, or cooling down
	dirty      bool     // enqueued while processing
	failed     bool     // its reconcile failed: on a clock with turns it is retried once everything else is done
}

// delay is a key that is added at a time.
type delay struct {
	at     time.Time
	timer  clock.Timer
	causes []uint64 // of the reconciles that requeued the key
}

const (
	// maxCauses bounds the causes of a key. The oldest ones are dropped.
	maxCauses = 16

	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
	// soonRetry bounds the backoffs that follow machine time: the first failures of a key are often races between components, e.g.
	// conflicts, which a cluster resolves by itself when its clock stands still.
	soonRetry = 100 * time.Millisecond
)

func newQueue(clk clock.Clock, name string) *queue {
	return &queue{
		clock: clk, machine: clock.Machine(clk), work: clock.NewWork(clk, name),
		keys:     workqueue.NewTyped[objects.Key](),
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[objects.Key](firstRetry, lastRetry),
		refusals: workqueue.NewTypedItemExponentialFailureRateLimiter[objects.Key](firstRetry, lastRetry),
		states:   map[objects.Key]*state{}, waiting: map[objects.Key]*delay{},
	}
}

func (q *queue) shutDown() {
	q.mu.Lock()
	q.shuttingDown = true
	for key, d := range q.waiting {
		d.timer.Stop()
		delete(q.waiting, key)
	}
	q.mu.Unlock()
	q.keys.ShutDown()
}

func (q *queue) state(key objects.Key) *state {
	s := q.states[key]
	if s == nil {
		s = &state{}
		q.states[key] = s
	}
	return s
}

func (q *queue) enqueue(key objects.Key, revision uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state(key).addCauses(revision)
	q.add(key)
}

// add queues a key, or marks it as dirty. The caller holds mu.
func (q *queue) add(key objects.Key) {
	s := q.state(key)
	switch {
	case s.processing:
		s.dirty = true
	case s.queued:
	case q.turn != nil:
		if s.queued = !q.shuttingDown; s.queued {
			q.turn(key, s.class())
		}
	default:
		s.queued = true
		q.work.Add(1)
		q.keys.Add(key)
	}
}

func (s *state) class() clock.Class {
	if s.failed {
		return clock.Retry
	}
	return clock.Regular
}

func (s *state) addCauses(revisions ...uint64) {
	s.causes = appendCauses(s.causes, revisions)
}

// appendCauses appends revisions to causes, except 0.
func appendCauses(causes, revisions []uint64) []uint64 {
	for _, r := range revisions {
		if r != 0 {
			causes = append(causes, r)
		}
	}
	return causes[max(0, len(causes)-maxCauses):]
}

// take marks a key as processing and returns its causes.
func (q *queue) take(key objects.Key) []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state(key)
	causes := s.causes
	*s = state{processing: true}
	return causes
}

// done ends the reconcile of a key, which then cools down.
func (q *queue) done(key objects.Key, cooldown time.Duration) {
	if q.turn != nil {
		q.finish(key)
		return
	}
	q.keys.Done(key)
	if cooldown <= 0 {
		q.finish(key)
		return
	}
	q.machine.AfterFunc(cooldown, func() { q.finish(key) })
}

// finish ends the cooldown of a key. A dirty key is queued again.
func (q *queue) finish(key objects.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state(key)
	s.processing = false
	switch {
	case s.dirty:
		s.dirty = false
		q.add(key)
	case len(s.causes) == 0:
		delete(q.states, key)
	}
	if q.turn == nil {
		q.work.Add(-1)
	}
}

// addAfter adds a key with causes after d. If the key waits already, it is added once, at the earlier time.
func (q *queue) addAfter(key objects.Key, d time.Duration, causes []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.clock.Now().Add(d)
	old := q.waiting[key]
	if old != nil {
		causes = appendCauses(old.causes, causes)
		old.causes = causes
	}
	if q.shuttingDown || old != nil && !at.Before(old.at) {
		return
	}
	if old != nil {
		old.timer.Stop()
	}
	next := &delay{at: at, causes: causes}
	q.waiting[key] = next
	next.timer = q.clock.AfterFunc(d, func() {
		q.work.Add(1)
		go q.endWait(key, next) // in a goroutine, since a fake clock calls the function while it holds its lock
	})
}

// endWait adds a key whose delay is over, unless another delay has replaced it.
func (q *queue) endWait(key objects.Key, d *delay) {
	defer q.work.Add(-1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[key] == d {
		delete(q.waiting, key)
		q.state(key).addCauses(d.causes...)
		q.add(key)
	}
}

// setBackoff sets the bounds of the backoff after refused requests; 0 is the default.
func (q *queue) setBackoff(first, last time.Duration) {
	q.refusals = workqueue.NewTypedItemExponentialFailureRateLimiter[objects.Key](cmp.Or(first, firstRetry), cmp.Or(last, lastRetry))
}

// addRateLimited adds a key whose reconcile failed, after its backoff. refused: the API server has refused a request.
func (q *queue) addRateLimited(key objects.Key, causes []uint64, refused bool) {
	q.mu.Lock()
	q.state(key).addCauses(causes...)
	q.mu.Unlock()
	failures := q.failures
	if refused {
		failures = q.refusals
	}
	pause := failures.When(key)
	if pause >= soonRetry {
		q.addAfter(key, pause, nil)
		return
	}
	if q.turn != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.state(key).failed = true
		q.add(key)
		return
	}
	q.work.Add(1)
	q.machine.AfterFunc(pause, func() {
		defer q.work.Add(-1)
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.shuttingDown {
			q.add(key)
		}
	})
}
