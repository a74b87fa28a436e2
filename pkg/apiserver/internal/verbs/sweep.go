package verbs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/store"
)

const (
	sweepEvery   = time.Minute
	eventsLive   = time.Hour // as long as Kubernetes keeps them
	sweptAtATime = 100
)

// sweep removes the Events that have not changed for an hour.
func (e *Engine) sweep(ctx context.Context) {
	for clock.Sleep(ctx, e.config.Clock, sweepEvery) == nil {
		e.mu.RLock()
		t := e.tables[schema.GroupResource{Resource: "events"}]
		e.mu.RUnlock()
		if t == nil {
			continue
		}
		if err := e.expire(ctx, t); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "remove expired events", "err", err)
		}
	}
}

func (e *Engine) expire(ctx context.Context, t *table) error {
	items, err := t.All(ctx, "")
	if err != nil {
		return err
	}
	limit := e.config.Clock.Now().Add(-eventsLive)
	var ops []store.Op
	for _, i := range items {
		if !expiredAt(i, limit) {
			continue
		}
		ops = append(ops, store.Op{Key: t.StoreKey(i.Key), Expect: store.At(i.Revision)})
	}
	for some := range slices.Chunk(ops, sweptAtATime) {
		_, err := e.config.Store.Write(ctx, some...)
		if err != nil && !errors.Is(err, store.ErrConflict) { // one was seen again just now: the others can wait
			return err
		}
	}
	return nil
}

// expiredAt reports whether an Event was last written before limit.
func expiredAt(i *cache.Item, limit time.Time) bool {
	obj, err := i.Object()
	if err != nil {
		return false
	}
	ev, ok := obj.(*corev1.Event)
	if !ok {
		return false
	}
	last := ev.CreationTimestamp.Time
	for _, t := range []time.Time{ev.LastTimestamp.Time, ev.EventTime.Time} {
		if t.After(last) {
			last = t
		}
	}
	if ev.Series != nil && ev.Series.LastObservedTime.After(last) {
		last = ev.Series.LastObservedTime.Time
	}
	return last.Before(limit)
}
