// Package reconcile owns the loop that every controller, and the kubelet's pod workers, share: sources put keys into a
// queue, workers take them out and call Reconcile, and what fails comes back later. A key is never worked on twice at the
// same time, and the revisions that woke it travel in the context of Reconcile, to the writes that it makes.
package reconcile

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Loop is one controller.
type Loop struct {
	Name    string   // is the controller's file name, its metric label and its log field
	Sources []Source // what wakes it

	// Reconcile brings the object of key nearer to what it should be. It is level-triggered: it looks at the caches, not
	// at what woke it. A positive duration means: come back after it. An error means: come back with a growing pause
	// (conflicts and not-founds, which a newer cache will settle, are not logged above Debug).
	Reconcile func(ctx context.Context, key objects.Key) (time.Duration, error)

	Workers int // how many keys are worked on at the same time; 0: 1

	// Rest lets a key rest after it was worked on, for as long as that took but at most so long, before it is worked on
	// again: a loop that is woken by each of a thousand pods looks at all of them less often, and at a few at once. 0: none.
	Rest time.Duration
}

// Enqueue adds a key to the loop's workqueue. revision is the change that triggered it, 0 for none.
type Enqueue func(key objects.Key, revision uint64)

// Source subscribes to something and wakes the loop for it. It is called once, when the loop starts.
type Source func(ctx context.Context, enqueue Enqueue)

// Watch wakes the loop for each change of an object, with the object's key.
func Watch[T objects.Object](c *client.Cache[T]) Source {
	return func(_ context.Context, enqueue Enqueue) {
		c.Subscribe(func(ch client.Change[T]) { enqueue(ch.Key(), ch.Revision) })
	}
}

// Owned wakes the loop for the controlling owner, of that kind, of each object that changes.
func Owned[T objects.Object](c *client.Cache[T], kind string) Source {
	return Map(c, func(ch client.Change[T]) []objects.Key {
		var keys []objects.Key
		add := func(obj metav1.Object) {
			if ref := metav1.GetControllerOfNoCopy(obj); ref != nil && ref.Kind == kind {
				keys = append(keys, objects.Key{Namespace: obj.GetNamespace(), Name: ref.Name})
			}
		}
		if !ch.Added() {
			add(ch.Old)
		}
		if !ch.Deleted() {
			add(ch.New)
		}
		if len(keys) == 2 && keys[0] == keys[1] {
			keys = keys[:1]
		}
		return keys
	})
}

// Map wakes the loop for the keys that f finds in a change.
func Map[T objects.Object](c *client.Cache[T], f func(client.Change[T]) []objects.Key) Source {
	return func(_ context.Context, enqueue Enqueue) {
		c.Subscribe(func(ch client.Change[T]) {
			for _, key := range f(ch) {
				enqueue(key, ch.Revision)
			}
		})
	}
}

// Every wakes the loop for one fixed key at each interval, beginning at once.
func Every(clk clock.Clock, interval time.Duration, key objects.Key) Source {
	return func(ctx context.Context, enqueue Enqueue) {
		go func() {
			for enqueue(key, 0); clock.Sleep(ctx, clk, interval) == nil; {
				enqueue(key, 0)
			}
		}()
	}
}

// Run works until ctx ends, and returns when its workers have finished what they had begun. The caches that the sources
// watch must be synced or be going to be.
func (l Loop) Run(ctx context.Context, clk clock.Clock) error {
	q := &queue{
		clock: clk, states: map[objects.Key]*state{},
		keys: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[objects.Key](5*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[objects.Key]{Clock: clk}),
	}
	for _, source := range l.Sources {
		source(ctx, q.enqueue)
	}
	var workers sync.WaitGroup
	for range max(l.Workers, 1) {
		workers.Go(func() { l.work(ctx, clk, q) })
	}
	<-ctx.Done()
	q.keys.ShutDown()
	workers.Wait()
	return nil
}

func (l Loop) work(ctx context.Context, clk clock.Clock, q *queue) {
	for {
		key, shutdown := q.keys.Get()
		if shutdown {
			return
		}
		began := clk.Now()
		l.one(ctx, clk, q, key)
		q.done(key, min(clk.Since(began), l.Rest))
	}
}

func (l Loop) one(ctx context.Context, clk clock.Clock, q *queue, key objects.Key) {
	causes := q.take(key)
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "controller panicked", "controller", l.Name, "key", key.String(), "err", p, "stack", string(debug.Stack()))
			q.retry(key, causes)
		}
	}()
	began := clk.Now()
	after, err := l.Reconcile(trace.With(ctx, causes...), key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		level := slog.LevelWarn
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			level = slog.LevelDebug
		}
		slog.Log(ctx, level, "reconcile again", "controller", l.Name, "key", key.String(), "err", err, "took", clk.Since(began))
		q.retry(key, causes)
	default:
		q.keys.Forget(key)
		if after > 0 {
			q.keys.AddAfter(key, after)
		}
	}
}

// queue is the work queue with what is known of each key in it.
type queue struct {
	keys  workqueue.TypedRateLimitingInterface[objects.Key]
	clock clock.Clock

	mu     sync.Mutex
	states map[objects.Key]*state // of keys that wait, are worked on or rest
}

// state is what is known of a key.
type state struct {
	causes  []uint64 // the revisions that asked for it
	waiting bool     // in keys
	busy    bool     // worked on, or resting after it
	again   bool     // woken while it was busy
}

// maxCauses bounds how many revisions a waiting key remembers: the first ones are forgotten.
const maxCauses = 16

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
	s := q.state(key)
	s.remember(revision)
	if s.busy {
		s.again = true
	} else if !s.waiting {
		s.waiting = true
		q.keys.Add(key)
	}
}

func (s *state) remember(revisions ...uint64) {
	for _, r := range revisions {
		if r != 0 {
			s.causes = append(s.causes, r)
		}
	}
	s.causes = s.causes[max(0, len(s.causes)-maxCauses):]
}

// take notes that key is worked on and returns its causes.
func (q *queue) take(key objects.Key) []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state(key)
	causes := s.causes
	*s = state{busy: true}
	return causes
}

// done ends the work on key, which then rests.
func (q *queue) done(key objects.Key, rest time.Duration) {
	q.keys.Done(key)
	if rest <= 0 {
		q.rested(key)
		return
	}
	q.clock.AfterFunc(rest, func() { q.rested(key) })
}

// rested ends the rest of a key: it comes back if it was woken meanwhile, and is forgotten if nothing is known of it.
func (q *queue) rested(key objects.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state(key)
	s.busy = false
	switch {
	case s.again:
		s.again, s.waiting = false, true
		q.keys.Add(key)
	case len(s.causes) == 0:
		delete(q.states, key)
	}
}

func (q *queue) retry(key objects.Key, causes []uint64) {
	q.mu.Lock()
	q.state(key).remember(causes...)
	q.mu.Unlock()
	q.keys.AddRateLimited(key)
}
