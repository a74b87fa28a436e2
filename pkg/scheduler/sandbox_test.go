package scheduler_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func sandboxPod(name string, priority int32, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Priority: &priority,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
}

// TestSandboxQueue follows pods through the queue of a sandbox: one that fits, one that waits for another to leave, one that evicts others, and a gated one.
func TestSandboxQueue(t *testing.T) {
	ctx := t.Context()
	clk := clock.NewManual(time.Unix(0, 0), clock.Real())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("9")}}}
	box, err := scheduler.NewSandbox(ctx, scheduler.Simulation{Registry: schedplugins.Registry, Clock: clk, Nodes: []*corev1.Node{node}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(ctx)
	next := func(want, on string, evicts int) {
		t.Helper()
		a := box.Next(ctx)
		switch {
		case len(a) == 0 && want == "":
		case len(a) != 1 || a[0].Pod.Name != want || a[0].Node != on || len(a[0].Evicted) != evicts:
			t.Fatalf("got %+v, want pod %q on node %q", a, want, on)
		}
	}
	add := func(pod *corev1.Pod) {
		t.Helper()
		if err := box.SetPod(ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
	advance := func(d time.Duration) {
		t.Helper()
		if _, err := clk.Advance(ctx, clk.Now().Add(d), 0); err != nil {
			t.Fatal(err)
		}
	}
	gated := sandboxPod("gated", 100, "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	add(gated)
	add(sandboxPod("first", 0, "2"))
	add(sandboxPod("second", 0, "1"))
	next("first", "n", 0)
	next("second", "", 0)
	next("", "", 0)
	if !box.Due().IsZero() {
		t.Errorf("a pod that waits for an event is due at %v", box.Due())
	}
	box.DeletePod(ctx, sandboxPod("first", 0, "2"))
	if due := box.Due(); !due.Equal(clk.Now().Add(time.Second)) {
		t.Errorf("the backoff ends at %v", due)
	}
	next("second", "n", 0) // before its backoff ends, since nothing else is to do
	add(sandboxPod("third", 0, "1"))
	next("third", "n", 0)
	add(sandboxPod("high", 10, "1500m"))
	next("high", "", 2)
	next("high", "n", 0)
	gated = gated.DeepCopy()
	gated.Spec.SchedulingGates = nil
	add(gated)
	next("gated", "", 1) // of the priority 100: it evicts high
	next("gated", "n", 0)
	add(sandboxPod("last", 0, "2"))
	next("last", "", 0)
	advance(5*time.Minute + time.Second)
	next("", "", 0)
	box.Flush(ctx)
	next("last", "", 0)
	bigger := node.DeepCopy()
	bigger.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("3")
	box.SetNode(ctx, bigger)
	next("last", "n", 0)
	box.DeleteNode(ctx, "n")
	if n := len(box.NodeInfos()); n != 0 {
		t.Errorf("%d nodes", n)
	}
}
