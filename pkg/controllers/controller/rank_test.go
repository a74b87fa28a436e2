package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// runningPod returns a pod that is Ready since an hour before noon, on node n.
func runningPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-2 * time.Hour)), Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
			}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// TestRankForDeletion lists pods in the order of deletion; each differs from the previous one in one property.
func TestRankForDeletion(t *testing.T) {
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	always := corev1.ContainerRestartPolicyAlways
	order := []*corev1.Pod{
		runningPod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }),
		runningPod("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending; notReady(p) }),
		runningPod("unknown", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown; notReady(p) }),
		runningPod("not-ready", notReady),
		runningPod("cheap", func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = "-5" }),
		runningPod("crowded", func(p *corev1.Pod) { p.Spec.NodeName = "crowded" }),
		runningPod("just-ready", func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
		}),
		runningPod("restarted", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}} }),
		runningPod("sidecar-restarted", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", RestartCount: 2}}
		}),
		runningPod("young", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-61 * time.Minute)) }),
		runningPod("ordinary", nil),
		runningPod("dear", func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = "100" }),
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		got := append([]*corev1.Pod(nil), order...)
		rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		RankForDeletion(got, map[string]int{"n": 1, "crowded": 2}, noon)
		for i := range got {
			if got[i] != order[i] {
				var names []string
				for _, p := range got {
					names = append(names, p.Name)
				}
				t.Fatalf("got %v", names)
			}
		}
	}
}

func TestYounger(t *testing.T) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	for _, c := range []struct {
		name string
		a, b metav1.Time
		want int
	}{
		{"the same", ago(time.Hour), ago(time.Hour), 0},
		{"much younger first", ago(time.Minute), ago(time.Hour), -1},
		{"much older last", ago(time.Hour), ago(time.Minute), 1},
		{"of about one age: by UID", ago(10 * time.Second), ago(11 * time.Second), -1},
		{"of about one age, the other way round", ago(11 * time.Second), ago(10 * time.Second), -1},
		{"unknown first", metav1.Time{}, ago(time.Hour), -1},
		{"unknown first, the other way round", ago(time.Hour), metav1.Time{}, 1},
		{"from the future", ago(-time.Hour), ago(time.Second), -1},
	} {
		if got := younger(c.a, c.b, "a", "b", noon); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDeletionCost(t *testing.T) {
	for value, want := range map[string]int32{"": 0, "0": 0, "7": 7, "-7": -7, "+7": 0, "07": 0, "seven": 0, "99999999999": 0, "2147483647": 2147483647} {
		p := runningPod("p", func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = value })
		if got := deletionCost(p); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
}

func TestAvailable(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*corev1.Pod)
		minReady time.Duration
		ok       bool
		wait     time.Duration
	}{
		{"ready", nil, 0, true, 0},
		{"ready for long enough", nil, time.Hour, true, 0},
		{"not for long enough", nil, time.Hour + time.Second, false, time.Second},
		{"not ready", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, 0, false, 0},
		{"ready without a transition time", func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, time.Second, false, 0},
		{"no condition", func(p *corev1.Pod) { p.Status.Conditions = nil }, 0, false, 0},
	} {
		ok, wait := PodAvailable(runningPod("p", c.change), c.minReady, noon)
		if ok != c.ok || wait != c.wait {
			t.Errorf("%s: got %t, %v", c.name, ok, fmt.Sprint(wait))
		}
	}
}
