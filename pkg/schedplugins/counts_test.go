package schedplugins

import (
	"maps"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestCounts checks the counts of attempts and of pending pods.
func TestCounts(t *testing.T) {
	v := newVirtualCluster(t, 1)
	v.node("n", "2")
	v.start(nil)
	if !v.scheduler.Ready() {
		t.Error("the scheduler is not ready")
	}
	v.pod("fits", "1")
	v.pod("large", "3")
	v.pod("gated", "1", gated)
	v.advance(time.Minute)
	kind := func(result string) scheduler.AttemptKind {
		return scheduler.AttemptKind{Profile: "default-scheduler", Result: result}
	}
	attempts := v.scheduler.Attempts()
	if attempts[kind("scheduled")] != 1 || attempts[kind("unschedulable")] != v.attempts("large") || attempts[kind("unschedulable")] == 0 || len(attempts) != 2 {
		t.Errorf("attempts %v, %d of them of the large pod", attempts, v.attempts("large"))
	}
	want := map[string]int{"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}
	if got := v.scheduler.Pending(t.Context()); !maps.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
	if raw, profiling := v.scheduler.Configuration(); len(raw) == 0 || !profiling {
		t.Errorf("configuration %s, profiling %v", raw, profiling)
	}
}
