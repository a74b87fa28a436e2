// Package reconcile owns the loop that controllers and the kubelet's pod workers share: sources enqueue keys, workers call
// Reconcile with them, and a key whose Reconcile fails is retried with backoff. A key is reconciled by one worker at a time.
// The context of Reconcile carries the revisions of the changes that enqueued the key, and so do the writes made with it.
package reconcile

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Loop is one controller.
type Loop struct {
	Name    string   // the controller's file name, metric label and log field
	Sources []Source // they enqueue keys

	// Reconcile brings the object of a key closer to its desired state. It is level-triggered: it reads caches and does not
	// depend on the change that enqueued the key. A positive duration requeues the key after that time, an error with
	// backoff. Conflict, NotFound and AlreadyExists errors, which the next state of the caches resolves, are logged at Debug.
	Reconcile func(ctx context.Context, key objects.Key) (time.Duration, error)

	Workers int // how many keys are reconciled at the same time; 0: 1

	// FirstBackoff and MaxBackoff bound the exponential backoff of a key after requests that the API server has refused. After other
	// errors (no connection, or Conflict, NotFound and AlreadyExists) it is between 5 ms and 30 s. 0: the same.
	FirstBackoff, MaxBackoff time.Duration

	// MaxCooldown bounds the pause after a reconcile, which is as long as the reconcile took (but see CooldownFactor). A loop whose objects are enqueued
	// by each of a thousand pods then handles many changes at once. 0: no pause.
	MaxCooldown time.Duration

	// CooldownFactor multiplies the pause, so that a loop with costly reconciles uses a smaller part of a core. 0: 1.
	CooldownFactor int
}

// Enqueue adds a key to the loop's workqueue. revision is that of the change that caused it, 0 for none.
type Enqueue func(key objects.Key, revision uint64)

// Source subscribes to changes and enqueues keys for them. A Loop calls it once, when it starts.
type Source func(ctx context.Context, enqueue Enqueue)

// Watch enqueues the key of each object that changes.
func Watch[T objects.Object](c *client.Cache[T]) Source {
	return func(_ context.Context, enqueue Enqueue) {
		c.Subscribe(func(ch client.Change[T]) { enqueue(ch.Key(), ch.Revision) })
	}
}

// Owned enqueues the controlling owner of each object that changes, if the owner is of a kind.
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

// Map enqueues the keys that f returns for a change.
func Map[T objects.Object](c *client.Cache[T], f func(client.Change[T]) []objects.Key) Source {
	return func(_ context.Context, enqueue Enqueue) {
		c.Subscribe(func(ch client.Change[T]) {
			for _, key := range f(ch) {
				enqueue(key, ch.Revision)
			}
		})
	}
}

// Every enqueues one key at once and then at each interval.
func Every(clk clock.Clock, interval time.Duration, key objects.Key) Source {
	return func(ctx context.Context, enqueue Enqueue) {
		ctx, work := clock.Begin(ctx, clk, "timer of a controller")
		go func() {
			defer work.End()
			for enqueue(key, 0); clock.Sleep(ctx, clk, interval) == nil; {
				enqueue(key, 0)
			}
		}()
	}
}

// Run runs the loop until ctx ends. It returns when its workers have finished the reconciles that they had begun. Reconcile may
// be called before the caches of the sources have synced.
func (l Loop) Run(ctx context.Context, clk clock.Clock) error {
	q := newQueue(clk, l.Name+" keys")
	q.setBackoff(l.FirstBackoff, l.MaxBackoff)
	defer q.work.End()
	var workers sync.WaitGroup
	if clock.InTurns(clk) {
		q.turn = func(key objects.Key, class clock.Class) {
			workers.Add(1)
			rank := clock.Rank{Class: class, Part: "controller " + l.Name, Key: key.String()}
			clock.GoTurn(ctx, clk, rank, func(ctx context.Context) {
				defer workers.Done()
				if ctx.Err() == nil {
					l.reconcileKey(ctx, q, key)
					q.done(key, 0)
				}
			})
		}
	}
	for _, source := range l.Sources {
		source(ctx, q.enqueue)
	}
	if q.turn == nil {
		for range max(l.Workers, 1) {
			workers.Go(func() { l.work(ctx, q) })
		}
	}
	<-ctx.Done()
	q.shutDown()
	workers.Wait()
	return nil
}

// RunAll runs loops until ctx ends. On a manual clock their start counts as work until all their sources enqueue. name is the name of that
// work.
func RunAll(ctx context.Context, clk clock.Clock, name string, loops ...Loop) error {
	ctx, work := clock.Begin(ctx, clk, name)
	defer work.End()
	var subscribed sync.WaitGroup
	var running errgroup.Group
	for _, l := range loops {
		subscribed.Add(1)
		l.Sources = append(slices.Clip(l.Sources), func(context.Context, Enqueue) { subscribed.Done() })
		running.Go(func() error { return l.Run(ctx, clk) })
	}
	subscribed.Wait()
	work.End()
	return running.Wait()
}

func (l Loop) work(ctx context.Context, q *queue) {
	for {
		key, shutdown := q.keys.Get()
		if shutdown {
			return
		}
		began := q.machine.Now()
		l.reconcileKey(ctx, q, key)
		q.done(key, min(q.machine.Since(began)*time.Duration(max(l.CooldownFactor, 1)), l.MaxCooldown))
	}
}

func (l Loop) reconcileKey(ctx context.Context, q *queue, key objects.Key) {
	causes := q.take(key)
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "controller panicked", "controller", l.Name, "key", key.String(), "err", p, "stack", string(debug.Stack()))
			q.addRateLimited(key, causes, false)
		}
	}()
	began := q.machine.Now()
	after, err := l.Reconcile(trace.With(ctx, causes...), key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		level := slog.LevelWarn
		stale := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
		if stale {
			level = slog.LevelDebug
		}
		slog.Log(ctx, level, "reconcile failed, retrying", "controller", l.Name, "key", key.String(), "err", err, "took", q.machine.Since(began))
		q.addRateLimited(key, causes, !stale && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown)
	default:
		q.failures.Forget(key)
		q.refusals.Forget(key)
		if after > 0 {
			q.addAfter(key, after, causes)
		}
	}
}
