package client

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// actions is where events.k8s.io Events are written.
var actions = eventsv1.SchemeGroupVersion.WithResource("events")

// seriesLength is how long an events.k8s.io Event is remembered after it was last seen, and how often that is looked at.
const seriesLength = 6 * time.Minute

// seriesKey says which events are the same but for their time.
type seriesKey struct {
	eventtype, action, reason, note string
	regarding                       corev1.ObjectReference
}

// recordAction writes an event that is new, and makes one that is not a series of the one that is there. How long the
// series gets is written once it has ended.
func (r *Recorder) recordAction(ctx context.Context, ev *eventsv1.Event) {
	key := seriesKey{ev.Type, ev.Action, ev.Reason, ev.Note, ev.Regarding}
	key.regarding.ResourceVersion = "" // it says nothing about what happened
	known := r.series[key]
	switch {
	case known == nil:
		r.series[key] = ev
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
	r.insist(ctx, func() error {
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
	r.insist(ctx, func() error {
		_, err := r.client.Patch(ctx, t, Patch{Type: types.MergePatchType, Data: patch}, metav1.PatchOptions{})
		if lost = apierrors.IsNotFound(err); lost {
			return nil // expired meanwhile
		}
		return err
	})
	if lost {
		r.createAction(ctx, ev)
	}
}

// finishSeries forgets the events that have not been seen for a while, and writes how often the repeated ones were.
func (r *Recorder) finishSeries(ctx context.Context) {
	before := r.clock.Now().Add(-seriesLength)
	for key, ev := range r.series {
		switch {
		case ev.Series == nil && ev.EventTime.Time.Before(before):
			delete(r.series, key)
		case ev.Series != nil && ev.Series.LastObservedTime.Time.Before(before):
			r.patchSeries(ctx, ev)
			delete(r.series, key)
		}
	}
}
