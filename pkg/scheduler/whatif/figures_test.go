package whatif

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func node(name, cpu, memory, gpus string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list(cpu, memory, gpus)}}
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2")
	return n
}

func list(cpu, memory, gpus string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, "example.com/gpu": gpus} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func podOf(name, node, cpu, memory, gpus string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(cpu, memory, gpus)}}}}}
}

// TestState compares the figures of a cluster with those counted by hand. Free are 1 and 3 cores, 7 and 4 GiB, and 1 and 0 GPUs, on a and on b.
func TestState(t *testing.T) {
	nodes := []*corev1.Node{node("a", "4", "8Gi", "4"), node("b", "4", "4Gi", "")}
	on := []*corev1.Pod{podOf("one", "a", "3", "1Gi", "3"), podOf("two", "b", "1", "", "")}
	on[0].UID, on[1].UID = "one", "two"
	box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: schedplugins.Registry, Nodes: nodes, Pods: on}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		want float64 // fragmentation
	}{
		{"no workload", nil, 0},
		{"it fits everywhere", []*corev1.Pod{podOf("p", "", "1", "", "")}, 0},
		{"not on a", []*corev1.Pod{podOf("p", "", "2", "", "")}, 0.25},                                   // 1 of 4 cores
		{"two resources, not on a", []*corev1.Pod{podOf("p", "", "2", "1Gi", "")}, (1.0/4 + 7.0/11) / 2}, // of free CPU and memory
		{"nowhere", []*corev1.Pod{podOf("p", "", "5", "", "")}, 1},                                       //
		{"a GPU, only on a", []*corev1.Pod{podOf("p", "", "1", "", "1")}, (3.0/4 + 0) / 2},               // all free GPUs are on a
		{"three of one, one of another", []*corev1.Pod{podOf("p", "", "2", "", ""), podOf("p", "", "2", "", ""), podOf("p", "", "2", "", ""), podOf("p", "", "1", "", "")}, 0.75 * 0.25},
	} {
		var workload shapes
		for _, pod := range c.pods {
			workload.add(pod)
		}
		s := stateOf(box.NodeInfos(), &workload)
		if math.Abs(s.Fragmentation-c.want) > 1e-9 {
			t.Errorf("%s: fragmentation %v, want %v", c.name, s.Fragmentation, c.want)
		}
		if s.CPU != 0.5 || math.Abs(s.Memory-1.0/12) > 1e-9 || s.Extended["example.com/gpu"] != 0.75 || s.UsedNodes != 2 || s.ImbalanceMean != 0.25 || s.ImbalanceStddev != 0.25 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}
