package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// generator makes random nodes and pods.
type generator struct {
	*rand.Rand
}

func (w generator) pick(of ...string) string { return of[w.IntN(len(of))] }

func (w generator) node(i int) *corev1.Node {
	amounts := corev1.ResourceList{
		"cpu": resource.MustParse(w.pick("2", "4", "8")), "memory": resource.MustParse(w.pick("4Gi", "8Gi", "16Gi")), "pods": resource.MustParse(w.pick("3", "20")),
	}
	if w.IntN(4) == 0 {
		amounts["example.com/gpu"] = resource.MustParse("2")
	}
	name := fmt.Sprintf("n%02d", i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: w.pick("a", "b"), "disk": w.pick("ssd", "hdd")}},
		Spec:       corev1.NodeSpec{Unschedulable: w.IntN(10) == 0},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule} {
		if w.IntN(4) == 0 {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: w.pick("x", "y"), Effect: effect})
		}
	}
	for range w.IntN(3) {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{w.pick("web:1", "db:2", "pause:latest")}, SizeBytes: int64(w.IntN(900)) << 20})
	}
	return n
}

// pod draws from few shapes, so that pods share signatures.
func (w generator) pod(i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%03d", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": w.pick("web", "db", "cache")}},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: w.pick("web:1", "pause"),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}},
	}
	requests := p.Spec.Containers[0].Resources.Requests
	if w.IntN(4) > 0 {
		requests["cpu"] = resource.MustParse(w.pick("100m", "1"))
	}
	if w.IntN(3) == 0 {
		requests["memory"] = resource.MustParse("1Gi")
	}
	if w.IntN(8) == 0 {
		requests["example.com/gpu"] = resource.MustParse("1")
	}
	if w.IntN(3) == 0 {
		p.Spec.Tolerations = []corev1.Toleration{{Key: w.pick("x", "y"), Operator: corev1.TolerationOpExists}}
	}
	if w.IntN(5) == 0 {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if w.IntN(6) == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP}}
	}
	if w.IntN(4) == 0 {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}},
		}}}
	}
	return p
}

// addPodAffinity adds required anti-affinity or spreading.
func (w generator) addPodAffinity(p *corev1.Pod) {
	same := &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}
	if w.IntN(2) == 0 {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: same}}
		return
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: same}}}}
}

// TestMemoDoesNotChangeDecisions checks that a scheduler with a memo makes the same decisions, with the same messages, as
// one whose memo is cleared after each pod, while pods and nodes are added, changed and removed.
func TestMemoDoesNotChangeDecisions(t *testing.T) {
	for seed := range uint64(seeds(60)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareWithMemo(t, seed) })
	}
}

func compareWithMemo(t *testing.T, seed uint64) {
	w := generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	forgets := scheduler.NewBench(t, schedplugins.Registry, nil, seed, true)
	remembers := scheduler.NewBench(t, schedplugins.Registry, nil, seed, false)
	both := func(f func(*scheduler.Bench)) { f(forgets); f(remembers) }
	nodes := 3 + w.IntN(20)
	for i := range nodes {
		n := w.node(i)
		both(func(b *scheduler.Bench) { b.SetNode(n) })
	}
	var there []*corev1.Pod
	used := 0 // entries of the memo that were released
	for i := range 200 {
		p := w.pod(i)
		if seed%3 == 0 && w.IntN(20) == 0 {
			w.addPodAffinity(p) // pods that its terms do not select stay in the memo
		}
		want, got := forgets.Schedule(p), remembers.Schedule(p)
		if got != want {
			t.Fatalf("pod %d: with the memo it goes to %q, without to %q", i, got, want)
		}
		there = append(there, p)
		switch w.IntN(12) {
		case 0, 1, 2:
			k := w.IntN(len(there))
			gone := there[k]
			there = append(there[:k], there[k+1:]...)
			both(func(b *scheduler.Bench) { b.RemovePod(gone) })
		case 3:
			n := w.node(w.IntN(nodes))
			both(func(b *scheduler.Bench) { b.SetNode(n) })
		case 4:
			name := fmt.Sprintf("n%02d", w.IntN(nodes))
			both(func(b *scheduler.Bench) { b.RemoveNode(name) })
		case 5: // a pod is nominated, to another node than before if it was
			p := w.pod(1000 + w.IntN(3))
			p.Status.NominatedNodeName = fmt.Sprintf("n%02d", w.IntN(nodes))
			both(func(b *scheduler.Bench) { b.Nominate(p) })
		case 6:
			p := w.pod(1000 + w.IntN(3))
			both(func(b *scheduler.Bench) { b.Nominate(p) }) // no longer
		case 7:
			used += remembers.MemoLen()
			remembers.Release()
		}
	}
	if used+remembers.MemoLen() == 0 && seed%3 != 0 {
		t.Error("the memo is empty: the test compares nothing")
	}
}
