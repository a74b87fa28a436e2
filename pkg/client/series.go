package client

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
)

// actions is the resource events in the group events.k8s.io.
var actions = eventsv1.SchemeGroupVersion.WithResource("events")

// seriesLength is how long an event's series lasts after its last occurrence. Ended series are looked for at the same
// interval.
const seriesLength = 6 * time.Minute

// maxSeries bounds the events that a recorder keeps. Beyond it those without a repetition are dropped: a repetition then
// begins another event.
const maxSeries = 512

// seriesKey identifies the events of one series.
type seriesKey struct {
	eventtype, action, reason, note string
	regarding                       corev1.ObjectReference
}

func keyOfSeries(ev *eventsv1.Event) seriesKey {
	key := seriesKey{ev.Type, ev.Action, ev.Reason, ev.Note, ev.Regarding}
	key.regarding.ResourceVersion = "" // not part of what happened
	return key
}

// recordAction creates the Event for the first occurrence. For the second it adds a series to that Event. The final count
// is written when the series has ended.
func (r *Recorder) recordAction(ctx context.Context, ev *eventsv1.Event) {
	key := keyOfSeries(ev)
	known := r.series[key]
	switch {
	case known == nil:
		if len(r.series) >= maxSeries {
			maps.DeleteFunc(r.series, func(_ seriesKey, ev *eventsv1.Event) bool { return ev.Series == nil })
		}
		if len(r.series) < maxSeries {
			r.series[key] = ev
		}
		r.createAction(ctx, ev)
	case known.Series == nil:
		known.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: ev.EventTime}
		r.patchSeries(ctx, known)
	default:
		known.Series.Count++
		known.Series.LastObservedTime = ev.EventTime
	}
}

func (r *Recorder) createAction(ctx context.Context, ev *eventsv1.Event) {
	r.retry(ctx, func() error {
		_, err := r.client.Create(ctx, Target{Resource: actions, Namespace: ev.Namespace}, ev.DeepCopy(), metav1.CreateOptions{})
		return err
	})
}

func (r *Recorder) patchSeries(ctx context.Context, ev *eventsv1.Event) {
	patch, err := json.Marshal(map[string]any{"series": ev.Series})
	if err != nil {
		slog.ErrorContext(ctx, "event series not encoded", "err", err)
		return
	}
	t := Target{Resource: actions, Namespace: ev.Namespace, Name: ev.Name}
	lost := false
	r.retry(ctx, func() error {
		_, err := r.client.Patch(ctx, t, Patch{Type: types.MergePatchType, Data: patch}, metav1.PatchOptions{})
		if lost = apierrors.IsNotFound(err); lost {
			return nil // the event has expired
		}
		return err
	})
	if lost {
		r.createAction(ctx, ev)
	}
}

// finishSeries ends the series without recent events, and writes the counts of those with several.
func (r *Recorder) finishSeries(ctx context.Context) {
	before := r.clock.Now().Add(-seriesLength)
	byName := func(a, b *eventsv1.Event) int { return cmp.Compare(a.Name, b.Name) }
	for _, ev := range slices.SortedFunc(maps.Values(r.series), byName) {
		switch {
		case ev.Series == nil && ev.EventTime.Time.Before(before):
			delete(r.series, keyOfSeries(ev))
		case ev.Series != nil && ev.Series.LastObservedTime.Time.Before(before):
			r.patchSeries(ctx, ev)
			delete(r.series, keyOfSeries(ev))
		}
	}
}

// seriesTick calls a function at each seriesLength while there are series.
type seriesTick struct {
	recorder *Recorder
	since    time.Time
	due      func()
	timer    clock.Timer // nil: it does not run
}

func (r *Recorder) newSeriesTick(due func()) *seriesTick {
	return &seriesTick{recorder: r, since: r.clock.Now(), due: due}
}

// start has the function called at the next tick, unless there are no series. Afterwards the caller sets timer to nil, since a fake clock
// can't reset the timer of a function.
func (t *seriesTick) start() {
	if t.timer == nil && len(t.recorder.series) > 0 {
		t.timer = t.recorder.clock.AfterFunc(seriesLength-t.recorder.clock.Since(t.since)%seriesLength, t.due)
	}
}

func (t *seriesTick) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
