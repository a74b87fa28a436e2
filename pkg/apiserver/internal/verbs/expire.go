package verbs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
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

	// maxEventBytes bounds the memory of the Events. A check every boundInterval removes the oldest beyond it.
	maxEventBytes = 16 << 20
	boundInterval = 5 * time.Second
)

// events removes old Events: those that have not changed for eventTTL, and the oldest beyond a number of bytes.
type events struct {
	engine  *Engine
	first   store.Revision // the times of revisions up to this one are unknown: it is the head at the start, or after a pause; 0: during one
	reached []reachedAt    // the newest revision at each check, oldest first
	limit   int64          // bytes
	mu      sync.Mutex     // guards reached
}

// reachedAt is the newest revision at a time.
type reachedAt struct {
	at       time.Time
	revision store.Revision
}

// expireEvents removes old Events until ctx ends: at each expireInterval of the cluster's time, and as memory is the machine's, at each
// boundInterval of machine time if there are too many.
func (e *Engine) expireEvents(ctx context.Context) {
	ev := &events{engine: e, first: e.cache.Revision(), limit: maxEventBytes}
	var bound sync.WaitGroup
	defer bound.Wait()
	bound.Go(func() {
		for clock.Sleep(ctx, e.machine, boundInterval) == nil {
			if t := e.events(); t != nil && t.Bytes() > ev.limit {
				ev.expireAndLog(ctx, t)
			}
		}
	})
	timed, work := clock.Begin(ctx, e.config.Clock, "expiry of Events")
	defer work.End()
	for pause := expireInterval; clock.Sleep(timed, e.config.Clock, pause) == nil; pause = ev.pause() {
		if t := e.events(); t != nil {
			turn, end := clock.TakeTurn(timed, e.config.Clock, clock.Rank{Part: "expiry of Events"})
			ev.expireAndLog(turn, t)
			end()
		}
	}
}

// pause returns the time until the next check. Without Events none can expire before the TTL. Those that are written until then have unknown
// times, as those before the start.
func (ev *events) pause() time.Duration {
	if t := ev.engine.events(); t != nil && t.Count() > 0 {
		return expireInterval
	}
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.reached, ev.first = nil, 0
	return eventTTL
}

// events returns the table of the Events, nil before it is served.
func (e *Engine) events() *table {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tables[schema.GroupResource{Resource: "events"}]
}

func (ev *events) expireAndLog(ctx context.Context, t *table) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	expired, err := ev.expire(ctx, t)
	if err == nil && expired > 0 {
		err = ev.engine.cache.WaitUntilFresh(ctx) // the watches have the deletions
	}
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "remove expired events", "err", err)
	}
}

// expire removes the old Events of t, and returns their number. The caller holds mu.
func (ev *events) expire(ctx context.Context, t *table) (int, error) {
	items, err := t.All(ctx, "")
	if err != nil {
		return 0, err
	}
	now := ev.engine.config.Clock.Now()
	if ev.first == 0 {
		ev.first = ev.engine.cache.Revision()
	}
	limit, before := now.Add(-eventTTL), ev.recordRevision(now)
	slices.SortFunc(items, func(a, b *cache.Item) int { return cmp.Compare(a.Revision, b.Revision) })
	excess := t.Bytes() - ev.limit
	var ops []store.Op
	for _, i := range items {
		if excess > 0 || i.Revision <= before || i.Revision <= ev.first && expiredAt(i, limit) {
			excess -= int64(i.Bytes())
			ops = append(ops, store.Op{Key: t.StoreKey(i.Key), Expect: store.At(i.Revision)})
		}
	}
	for some := range slices.Chunk(ops, expireBatch) {
		_, err := ev.engine.config.Store.Write(ctx, some...)
		if err != nil && !errors.Is(err, store.ErrConflict) { // an Event of the chunk was updated meanwhile: the next run removes the others
			return 0, err
		}
	}
	return len(ops), nil
}

// recordRevision notes the current revision, and returns the newest one that was reached before the TTL.
func (ev *events) recordRevision(now time.Time) (before store.Revision) {
	ev.reached = append(ev.reached, reachedAt{now, ev.engine.cache.Revision()})
	old := 0
	for old < len(ev.reached) && !ev.reached[old].at.After(now.Add(-eventTTL)) {
		before = ev.reached[old].revision
		old++
	}
	ev.reached = ev.reached[max(0, old-1):] // the last old one is still the newest at the next check
	return before
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
