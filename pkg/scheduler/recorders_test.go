package scheduler

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestEventAfterTheEndIsDropped: a manual clock does not wait for an event that a binding cycle records after the recorders have ended.
func TestEventAfterTheEndIsDropped(t *testing.T) {
	m := clock.NewManual(time.Unix(1_700_000_000, 0), clock.Real())
	r := newRecorders(nil, m, clock.NewSource(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.run(ctx)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{SchedulerName: "late"}}
	r.action(t.Context(), pod, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned")
	if busy := m.Busy(); len(busy) > 0 {
		t.Errorf("busy: %v", busy)
	}
}
