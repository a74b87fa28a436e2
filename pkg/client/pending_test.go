package client

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPendingEvents fills and empties a queue of events: they come in order, and an empty queue takes no memory for events.
func TestPendingEvents(t *testing.T) {
	q := newPendingEvents()
	if c := cap(q.items); c != 0 {
		t.Errorf("a new queue has room for %d events", c)
	}
	for i := range queuedEvents + 1 {
		if ok := q.add(pending{core: &corev1.Event{Count: int32(i)}}); ok != (i < queuedEvents) {
			t.Fatalf("event %d: added: %v", i, ok)
		}
	}
	for i := range queuedEvents {
		<-q.ready
		if p := q.take(); p.core.Count != int32(i) {
			t.Fatalf("got event %d, want %d", p.core.Count, i)
		}
	}
	select {
	case <-q.ready:
		t.Error("an empty queue is ready")
	default:
	}
	if c := cap(q.items); c != 0 {
		t.Errorf("an empty queue has room for %d events", c)
	}
}
