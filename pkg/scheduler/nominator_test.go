package scheduler_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestNominatedPodsAreCountedOnTheirNode schedules pods to a node with room for one, to which another pod is nominated.
func TestNominatedPodsAreCountedOnTheirNode(t *testing.T) {
	pod := func(i int, priority int32, node string) *corev1.Pod {
		p := benchPod(i)
		p.Spec.Priority, p.Status.NominatedNodeName = &priority, node
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("20")
		return p
	}
	const none = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	for _, c := range []struct {
		name     string
		priority int32
		want     string
	}{{"lower priority", 1, none}, {"equal priority", 5, none}, {"higher priority", 9, "node-0000"}} {
		t.Run(c.name, func(t *testing.T) {
			b := scheduler.NewBench(t, schedplugins.Registry, nil, 1, false)
			b.SetNode(benchNode(0))
			nominated := pod(0, 5, "node-0000")
			b.Nominate(nominated)
			if got := b.Schedule(pod(1, c.priority, "")); got != c.want {
				t.Errorf("scheduled: %s, want %s", got, c.want)
			}
			if c.want != none {
				return
			}
			if got := b.Schedule(nominated); got != "node-0000" {
				t.Errorf("the nominated pod: %s", got)
			}
		})
	}
}

// TestNominatedNodeIsTriedFirst schedules a pod to its nominated node although another node scores higher.
func TestNominatedNodeIsTriedFirst(t *testing.T) {
	b := scheduler.NewBench(t, schedplugins.Registry, nil, 1, false)
	for i := range 3 {
		b.SetNode(benchNode(i))
	}
	for i := range 4 {
		p := benchPod(i)
		p.Status.NominatedNodeName = "node-0001"
		if got := b.Schedule(p); got != "node-0001" {
			t.Fatalf("pod %d is on %s", i, got)
		}
	}
}
