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
	expireInterval = time.Minute
	eventTTL       = time.Hour // Kubernetes' default of --event-ttl
	expireBatch    = 100
)

// expireEvents removes the Events that have not changed for eventTTL.
func (e *Engine) expireEvents(ctx context.Context) {
	for clock.Sleep(ctx, e.config.Clock, expireInterval) == nil {
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
	limit := e.config.Clock.Now().Add(-eventTTL)
	var ops []store.Op
	for _, i := range items {
		if !expiredAt(i, limit) {
			continue
		}
		ops = append(ops, store.Op{Key: t.StoreKey(i.Key), Expect: store.At(i.Revision)})
	}
	for some := range slices.Chunk(ops, expireBatch) {
		_, err := e.config.Store.Write(ctx, some...)
		if err != nil && !errors.Is(err, store.ErrConflict) { // an Event of the chunk was updated meanwhile: the next run removes the others
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
