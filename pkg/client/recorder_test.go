package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/trace"
)

// sink is a Client that records the writes of Events.
type sink struct {
	client.Client

	mu      sync.Mutex
	core    []*corev1.Event
	actions []*eventsv1.Event
	patches []string
	causes  []uint64
	fail    func() error // of the next writes; nil: none
}

func (s *sink) Create(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return nil, err
		}
	}
	s.causes = trace.From(ctx).Causes
	switch ev := obj.(type) {
	case *corev1.Event:
		if t.Resource != client.Events || t.Namespace != ev.Namespace {
			return nil, fmt.Errorf("event %s created at %+v", ev.Name, t)
		}
		s.core = append(s.core, ev)
	case *eventsv1.Event:
		if t.Resource.Group != "events.k8s.io" {
			return nil, fmt.Errorf("event %s created at %+v", ev.Name, t)
		}
		s.actions = append(s.actions, ev)
	}
	return obj, nil
}

func (s *sink) Patch(_ context.Context, t client.Target, p client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches = append(s.patches, t.Name+" "+string(p.Data))
	for _, ev := range s.core {
		if ev.Name == t.Name {
			next := ev.DeepCopy()
			next.Count += int32(strings.Count(strings.Join(s.patches, "\n"), t.Name+" "))
			return next, nil
		}
	}
	for _, ev := range s.actions {
		if ev.Name == t.Name {
			return ev, nil
		}
	}
	return nil, apierrors.NewNotFound(client.Events.GroupResource(), t.Name)
}

// written returns what has been written so far.
func (s *sink) written() (core []*corev1.Event, actions []*eventsv1.Event, patches []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.core), slices.Clone(s.actions), slices.Clone(s.patches)
}

// record runs a recorder on s in a synctest bubble. settle waits until the recorder is idle.
func record(t *testing.T, s *sink, test func(ctx context.Context, r *client.Recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := client.NewRecorder(s, clock.Real(), clock.NewSource(1), "a-controller", "an-instance")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		test(ctx, r)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestRecorderWrites(t *testing.T) {
	s := &sink{}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		r.Event(trace.With(ctx, 7, 8), pod("p", 5), corev1.EventTypeNormal, "Reason", "A message")
		r.Event(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n"}}, corev1.EventTypeWarning, "Other", "About a node")
		core, _, _ := s.written()
		if len(core) != 2 {
			t.Fatalf("%d events", len(core))
		}
		ev, about := core[0], core[0].InvolvedObject
		expect(t, "about", fmt.Sprint(about.Kind, about.APIVersion, about.Namespace, about.Name, about.UID, about.ResourceVersion), "Podv1nspuid-p5")
		expect(t, "event", fmt.Sprint(ev.Namespace, " ", ev.Type, " ", ev.Reason, " ", ev.Message, " ", ev.Count, " ", ev.Source.Component, " ", ev.ReportingController, " ", ev.ReportingInstance),
			"ns Normal Reason A message 1 a-controller a-controller an-instance")
		expect(t, "namespace of an event about a node", core[1].Namespace, "default")
		if core[0].Name == core[1].Name || !strings.HasPrefix(ev.Name, "p.") {
			t.Errorf("names %s, %s", core[0].Name, core[1].Name)
		}
	})
}

// TestEventNamesAreUnique has two recorders of a cluster record at the same time about the same object, as on a clock that stands still.
func TestEventNamesAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, src := &sink{}, clock.NewSource(1)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, component := range []string{"one", "another"} {
			r := client.NewRecorder(s, clock.Real(), src, component, "")
			running.Go(func() { _ = r.Run(ctx) }) // returns nil when ctx ends
			r.Event(ctx, pod("p", 5), corev1.EventTypeNormal, "Reason", "A message")
		}
		core, _, _ := s.written()
		if len(core) != 2 || core[0].Name == core[1].Name {
			t.Errorf("%d events, of names %q", len(core), []string{core[0].Name, core[len(core)-1].Name})
		}
		cancel()
		running.Wait()
	})
}

func TestRecorderPassesCauses(t *testing.T) {
	s := &sink{}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		r.Event(trace.With(ctx, 7, 8), pod("p", 5), corev1.EventTypeNormal, "Reason", "A message")
		s.written()
		s.mu.Lock()
		defer s.mu.Unlock()
		expect(t, "causes", s.causes, "[7 8]")
	})
}

// TestRecorderLimits: equal events are counted, similar ones combined, and those above the rate limit are discarded.
func TestRecorderLimits(t *testing.T) {
	s := &sink{}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		for range 3 {
			r.Event(ctx, pod("same", 5), corev1.EventTypeNormal, "Reason", "again")
		}
		core, _, patches := s.written()
		expect(t, "events", len(core), 1)
		expect(t, "patches", len(patches), 2)
		if !strings.Contains(patches[1], `"count":3`) {
			t.Errorf("patched %s", patches[1])
		}
		for i := range 1000 {
			r.Event(ctx, pod("many", 5), corev1.EventTypeNormal, "Created", fmt.Sprint("pod ", i))
		}
		core, _, patches = s.written()
		combined := 0
		for _, ev := range core {
			if strings.HasPrefix(ev.Message, "(combined from similar events): ") {
				combined++
			}
		}
		expect(t, "combined events", combined, 1)
		expect(t, "events", len(core), 1+9+1)
		expect(t, "writes about many", len(core)-1+len(patches)-2, 25)
		expect(t, "dropped", r.Dropped(), 0) // discarded by the rate limit, so not dropped
	})
}

// TestRecorderNeverBlocks: while the server hangs, events are dropped and counted.
func TestRecorderNeverBlocks(t *testing.T) {
	s := &sink{}
	r := client.NewRecorder(s, clock.Real(), clock.NewSource(1), "a-controller", "")
	for i := range 5000 { // Run is not called
		r.Event(t.Context(), pod(fmt.Sprint("p", i), 5), corev1.EventTypeNormal, "Reason", "A message")
	}
	expect(t, "dropped", r.Dropped(), 5000-4096)
}

func TestRecorderRetries(t *testing.T) {
	failures := 3
	s := &sink{}
	s.fail = func() error {
		if failures--; failures >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		r.Event(ctx, pod("p", 5), corev1.EventTypeNormal, "Reason", "A message")
		time.Sleep(time.Minute) // of the bubble's clock
		core, _, _ := s.written()
		expect(t, "events", len(core), 1)
		s.mu.Lock()
		s.fail = func() error { return apierrors.NewForbidden(client.Events.GroupResource(), "", errors.New("no")) }
		s.mu.Unlock()
		r.Event(ctx, pod("q", 5), corev1.EventTypeNormal, "Reason", "A message")
		synctest.Wait()
		expect(t, "dropped", r.Dropped(), 1)
	})
}

// TestRecorderDropsOldSeries: beyond a bound, a recorder drops the events that were not repeated, and keeps the series.
func TestRecorderDropsOldSeries(t *testing.T) {
	s := &sink{}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		event := func(note string) {
			r.Action(ctx, pod("p", 5), corev1.EventTypeWarning, "FailedScheduling", "Scheduling", note)
			synctest.Wait()
			time.Sleep(60 * time.Millisecond)
		}
		event("repeated")
		event("repeated")
		for i := range 600 {
			event(fmt.Sprint("once ", i))
		}
		event("repeated")
		event("once 0")
		event("once 599")
		_, actions, patches := s.written()
		expect(t, "events", len(actions), 1+600+1)
		expect(t, "patches", len(patches), 2)
	})
}

// TestRecorderSeries: repeated events of the scheduler become a series, whose count is written when the series ends.
func TestRecorderSeries(t *testing.T) {
	s := &sink{}
	record(t, s, func(ctx context.Context, r *client.Recorder) {
		event := func(note string) {
			r.Action(ctx, pod("p", 5), corev1.EventTypeWarning, "FailedScheduling", "Scheduling", note)
			synctest.Wait()
		}
		for range 5 {
			event("0/3 nodes are available")
			time.Sleep(time.Second)
		}
		event("0/4 nodes are available")
		_, actions, patches := s.written()
		expect(t, "events", len(actions), 2)
		expect(t, "patches", len(patches), 1)
		if !strings.Contains(patches[0], `"count":2`) {
			t.Errorf("patched %s", patches[0])
		}
		time.Sleep(13 * time.Minute)
		_, _, patches = s.written()
		expect(t, "patches after the end", len(patches), 2)
		if !strings.Contains(patches[1], `"count":5`) {
			t.Errorf("patched %s", patches[1])
		}
		event("0/3 nodes are available") // a new series begins with a new event
		event(strings.Repeat("x", 2000))
		_, actions, _ = s.written()
		expect(t, "events", len(actions), 4)
		expect(t, "length of a note", len(actions[3].Note), 1024)
		ev := actions[0]
		expect(t, "event", fmt.Sprint(ev.ReportingController, " ", ev.ReportingInstance, " ", ev.Action, " ", ev.Regarding.Name), "a-controller an-instance Scheduling p")
	})
}
