package client

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Recorder writes the Events of one component. Its methods do not block: they queue events, and drop and count them when the
// queue is full. Similar events are aggregated and frequent ones are filtered, with client-go's limits. Run writes one event at
// a time with a pause after each, so that events do not delay other writes. It is safe for concurrent use.
type Recorder struct {
	client    Client
	clock     clock.Clock
	machine   clock.Clock // of pauses and retries
	source    *clock.Source
	component string
	instance  string

	starting   func(context.Context) context.Context // with turns: it counts until Run does. Otherwise nil
	queue      *pendingEvents
	work       *clock.Work // a unit for each event that is queued or being written
	dropped    atomic.Uint64
	correlator *correlator
	series     map[seriesKey]*eventsv1.Event
}

const (
	eventAttempts = 12 // while the server cannot be reached, as in client-go
	eventPause    = 10 * time.Second
	maxNote       = 1024 // bytes that events.k8s.io allows
	maxPause      = 50 * time.Millisecond
)

// NewRecorder returns a recorder for a component, e.g. "deployment-controller". instance is the node of a kubelet, and "" for
// components with one instance.
func NewRecorder(c Client, clk clock.Clock, src *clock.Source, component, instance string) *Recorder {
	r := &Recorder{
		client: c, clock: clk, machine: clock.Machine(clk), source: src, component: component, instance: instance,
		queue: newPendingEvents(), work: clock.NewWork(clk, "events of "+component), correlator: newCorrelator(clk, src), series: map[seriesKey]*eventsv1.Event{},
	}
	if clock.InTurns(clk) {
		r.starting = clock.Starting(clk, "events of "+component)
	}
	return r
}

// Event records a core/v1 Event of type Normal or Warning about an object.
func (r *Recorder) Event(ctx context.Context, about objects.Object, eventtype, reason, message string) {
	r.EventAbout(ctx, about, "", eventtype, reason, message)
}

// EventAbout is Event for a part of the object, e.g. "spec.containers{web}".
func (r *Recorder) EventAbout(ctx context.Context, about objects.Object, fieldPath, eventtype, reason, message string) {
	ref := refTo(about)
	ref.FieldPath = fieldPath
	r.addCore(ctx, ref, nil, eventtype, reason, message)
}

// Annotated is Event with annotations.
func (r *Recorder) Annotated(ctx context.Context, about objects.Object, annotations map[string]string, eventtype, reason, message string) {
	r.addCore(ctx, refTo(about), annotations, eventtype, reason, message)
}

func (r *Recorder) addCore(ctx context.Context, ref corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string) {
	now := metav1.NewTime(r.clock.Now())
	stamp := r.source.Stamp(now.Time)
	meta := eventMeta(ref, stamp)
	meta.Annotations = annotations
	r.add(ctx, pending{stamp: stamp, core: &corev1.Event{
		ObjectMeta:     meta,
		InvolvedObject: ref, Reason: reason, Message: message, Type: eventtype,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source:              corev1.EventSource{Component: r.component, Host: r.instance},
		ReportingController: r.component, ReportingInstance: r.instance,
	}})
}

// Action records an events.k8s.io/v1 Event about an action of the component on an object, such as the scheduler's Binding.
func (r *Recorder) Action(ctx context.Context, about objects.Object, eventtype, reason, action, note string) {
	if len(note) > maxNote {
		note = note[:maxNote-len(" ...")] + " ..."
	}
	ref, now := refTo(about), r.clock.Now()
	r.add(ctx, pending{action: &eventsv1.Event{
		ObjectMeta: eventMeta(ref, r.source.Stamp(now)), EventTime: metav1.NewMicroTime(now),
		ReportingController: r.component, ReportingInstance: r.instance,
		Action: action, Reason: reason, Regarding: ref, Note: note, Type: eventtype,
	}})
}

// Dropped returns how many events were dropped because the queue was full.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

func (r *Recorder) add(ctx context.Context, p pending) {
	p.report = trace.From(ctx)
	if r.starting != nil { // Run counts
		if !r.queue.add(p) {
			r.dropped.Add(1)
		}
		return
	}
	r.work.Add(1)
	if !r.queue.add(p) {
		r.work.Add(-1)
		r.dropped.Add(1)
	}
}

// eventMeta returns the metadata of an event.
func eventMeta(ref corev1.ObjectReference, stamp int64) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cmp.Or(ref.Namespace, metav1.NamespaceDefault), Name: eventName(ref, stamp)}
}

func refTo(obj objects.Object) corev1.ObjectReference {
	kind := obj.GetObjectKind().GroupVersionKind()
	if kinds, _, err := kubescheme.Scheme.ObjectKinds(obj); err == nil {
		kind = kinds[0]
	}
	return corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}

// Run writes events until ctx ends. It does not write those that are queued then.
func (r *Recorder) Run(ctx context.Context) error {
	defer r.work.End()
	if r.starting != nil {
		return r.runInTurns(r.starting(ctx))
	}
	due := make(chan struct{}, 1)
	tick := r.newSeriesTick(func() {
		r.work.Add(1)
		due <- struct{}{}
	})
	defer tick.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			r.finishSeries(ctx)
			tick.timer = nil
			tick.start()
			r.work.Add(-1)
		case <-r.queue.ready:
			p := r.queue.take()
			began := r.machine.Now()
			r.record(trace.With(ctx, p.report.Causes...), p)
			tick.start() // before Add(-1): until then the event counts as work
			r.work.Add(-1)
			if clock.Sleep(ctx, r.machine, min(r.machine.Since(began), maxPause)) != nil {
				return nil
			}
		}
	}
}

// runInTurns is Run on a clock with turns: in each, it writes all events that are queued. It needs no pauses, since it delays nothing.
func (r *Recorder) runInTurns(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, r.clock, "events of "+r.component)
	defer work.End()
	var due atomic.Bool
	tick := r.newSeriesTick(func() {
		due.Store(true)
		r.queue.signal()
	})
	defer tick.stop()
	pending := func() bool { return due.Load() || r.queue.len() > 0 }
	for ctx.Err() == nil {
		if !pending() {
			work.Idle(pending, func() {
				select {
				case <-ctx.Done():
				case <-r.queue.ready:
				}
			})
			continue
		}
		turn, end := clock.TakeTurn(ctx, r.clock, clock.Rank{Part: "events of " + r.component, Key: r.instance})
		if due.Swap(false) {
			r.finishSeries(turn)
			tick.timer = nil
		}
		for range r.queue.len() {
			p := r.queue.take()
			r.record(trace.With(turn, p.report.Causes...), p)
		}
		tick.start()
		end()
	}
	return nil
}

func (r *Recorder) record(ctx context.Context, p pending) {
	if p.action != nil {
		r.recordAction(ctx, p.action)
		return
	}
	ev, patch := r.correlator.correlate(p.core, p.stamp)
	if ev == nil {
		return
	}
	r.retry(ctx, func() error { return r.writeCore(ctx, ev, patch) })
}

// writeCore increases the count of an existing event, or creates the event.
func (r *Recorder) writeCore(ctx context.Context, ev *corev1.Event, patch []byte) error {
	t := Target{Resource: Events, Namespace: ev.Namespace, Name: ev.Name}
	if patch != nil {
		_, err := r.client.Patch(ctx, t, Patch{Type: types.StrategicMergePatchType, Data: patch}, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	t.Name = ""
	_, err := r.client.Create(ctx, t, ev.DeepCopy(), metav1.CreateOptions{})
	return err
}

// retry calls write until it succeeds or the server refuses it. It retries only while the server cannot be reached.
func (r *Recorder) retry(ctx context.Context, write func() error) {
	for attempt := 1; ; attempt++ {
		err := write()
		if err == nil || ctx.Err() != nil {
			return
		}
		if _, refused := errors.AsType[*apierrors.StatusError](err); refused || attempt == eventAttempts {
			slog.DebugContext(ctx, "event not written", "err", err)
			r.dropped.Add(1)
			return
		}
		if clock.Sleep(ctx, r.machine, r.source.Jitter(eventPause, 0.25)) != nil {
			return
		}
	}
}
