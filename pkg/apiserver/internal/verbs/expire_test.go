package verbs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

var eventsInDefault = client.Target{Resource: client.Events, Namespace: "default"}

func event(name string, size int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": strings.Repeat("x", size)}},
		InvolvedObject: corev1.ObjectReference{Namespace: "default"},
	}
}

// TestOldestEventsAreRemoved creates 20 MB of Events: the oldest are removed, down to 16 MiB, long before they expire.
func TestOldestEventsAreRemoved(t *testing.T) {
	const events = 100
	s := serve(t, memory.New())
	for i := range events {
		create(t, s, eventsInDefault, event(fmt.Sprintf("e%03d", i), 200_000))
	}
	left := func() []string {
		list, err := s.List(t.Context(), eventsInDefault, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, obj := range list.Items {
			names = append(names, obj.GetName())
		}
		return names
	}
	names := left()
	for steps := 0; len(names) > 83; names = left() { // a run removes many at a time, and may be under way
		if steps < 3000 { // which is less than an hour
			s.clock.Step(time.Second)
			steps++
		}
	}
	if len(names) != 83 || names[0] != "e017" || names[82] != "e099" {
		t.Errorf("%d Events are left, from %s to %s", len(names), names[0], names[len(names)-1])
	}
}

// TestEventExpiresAnHourAfterItsWrite has an Event with lastTimestamp in the future: only the time of the write counts.
func TestEventExpiresAnHourAfterItsWrite(t *testing.T) {
	s := serve(t, memory.New())
	ev := event("e", 1)
	ev.LastTimestamp = metav1.NewTime(s.clock.Now().Add(24 * time.Hour))
	create(t, s, eventsInDefault, ev)
	began := s.clock.Now()
	for {
		_, err := s.Get(t.Context(), in(eventsInDefault, "e"), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s.clock.Step(time.Second)
	}
	if took := s.clock.Since(began); took < time.Hour {
		t.Errorf("the Event was deleted after %v", took)
	}
}
