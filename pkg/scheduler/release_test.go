package scheduler_test

import (
	"runtime"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestReleaseFreesPods checks that a released scheduler holds no pod that is gone.
func TestReleaseFreesPods(t *testing.T) {
	b := scheduler.NewBench(t, schedplugins.Registry, nil, 1, false)
	b.SetNode(benchNode(0))
	var gone []weak.Pointer[corev1.Pod]
	for i := range 20 {
		p := benchPod(i)
		b.Run(p, "node-0000")
		b.Schedule(benchPod(1000 + i))
		gone = append(gone, weak.Make(p))
		b.RemovePod(p)
	}
	b.Release()
	runtime.GC()
	for i, p := range gone {
		if p.Value() != nil {
			t.Errorf("pod %d is still there", i)
		}
	}
	if got := b.Schedule(benchPod(2000)); got != "node-0000" {
		t.Errorf("after the release a pod goes to %q", got)
	}
}
