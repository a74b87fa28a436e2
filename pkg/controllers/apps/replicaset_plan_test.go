package apps

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func pods(n int, change func(*corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = runningPod(fmt.Sprintf("p%03d", i), change)
	}
	return out
}

func TestPlanReplicas(t *testing.T) {
	for _, c := range []struct {
		name               string
		want               int32
		have, create, gone int
		listsRelated       bool
		neverListsRelated  bool
	}{
		{name: "enough", want: 3, have: 3},
		{name: "too few", want: 5, have: 3, create: 2},
		{name: "far too few", want: 5000, have: 0, create: 500},
		{name: "too many", want: 3, have: 5, gone: 2, listsRelated: true},
		{name: "all too many", want: 0, have: 5, gone: 5, neverListsRelated: true},
		{name: "far too many", want: 0, have: 800, gone: 500, listsRelated: true},
	} {
		s := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &c.want}}
		listed := false
		create, remove := planReplicas(s, pods(c.have, nil), func() []*corev1.Pod { listed = true; return nil }, noon)
		if create != c.create || len(remove) != c.gone {
			t.Errorf("%s: create %d, delete %d, want %d, %d", c.name, create, len(remove), c.create, c.gone)
		}
		if c.listsRelated && !listed || c.neverListsRelated && listed {
			t.Errorf("%s: related pods listed: %t", c.name, listed)
		}
	}
}

// TestPlanSpreads: among equal pods, the pods on the node with most pods of the same owner are deleted first, including
// pods of the owner's other sets.
func TestPlanSpreads(t *testing.T) {
	one := int32(1)
	alone := runningPod("alone", func(p *corev1.Pod) { p.Spec.NodeName = "a" })
	together := runningPod("together", func(p *corev1.Pod) { p.Spec.NodeName = "b" })
	ofAnother := runningPod("other", func(p *corev1.Pod) { p.Spec.NodeName = "b" })
	for _, all := range [][]*corev1.Pod{{alone, together}, {together, alone}} {
		_, remove := planReplicas(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &one}}, all,
			func() []*corev1.Pod { return []*corev1.Pod{alone, together, ofAnother} }, noon)
		if len(remove) != 1 || remove[0] != together {
			t.Errorf("deletes %v", remove[0].Name)
		}
	}
}

func TestReplicaSetStatus(t *testing.T) {
	three := int32(3)
	s := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Generation: 7},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &three, MinReadySeconds: 3605,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}}},
		},
	}
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "1", "b": "2", "c": "3"} }
	active := []*corev1.Pod{
		runningPod("long", func(p *corev1.Pod) {
			labelled(p)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-2 * time.Hour))
		}),
		runningPod("soon", labelled),
		runningPod("not-ready", func(p *corev1.Pod) { p.Status.Conditions = nil; p.Labels = map[string]string{"a": "1"} }),
	}
	got, again := replicaSetStatus(s, active, pods(2, nil), nil, noon)
	two := int32(2)
	want := appsv1.ReplicaSetStatus{
		Replicas: 3, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1, TerminatingReplicas: &two, ObservedGeneration: 7,
	}
	if fmt.Sprint(got.String()) != fmt.Sprint(want.String()) {
		t.Errorf("got  %s\nwant %s", got.String(), want.String())
	}
	if again != 5*time.Second {
		t.Errorf("looks again after %v", again)
	}
}

func TestReplicaFailure(t *testing.T) {
	three := int32(3)
	s := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &three}}
	fail := errors.New("quota exceeded")
	for have, want := range map[int]string{2: "FailedCreate", 4: "FailedDelete"} {
		c := replicaSetConditions(s, have, fail, noon)
		if len(c) != 1 || c[0].Reason != want || c[0].Message != "quota exceeded" || c[0].Status != corev1.ConditionTrue {
			t.Errorf("with %d pods: %+v", have, c)
		}
	}
	s.Status.Conditions = replicaSetConditions(s, 2, fail, noon)
	if c := replicaSetConditions(s, 2, errors.New("another"), noon.Add(time.Hour)); c[0].Message != "quota exceeded" {
		t.Errorf("the first failure was replaced by %+v", c)
	}
	if c := replicaSetConditions(s, 3, nil, noon); len(c) != 0 {
		t.Errorf("still failing: %+v", c)
	}
	if len(s.Status.Conditions) != 1 {
		t.Error("the old status was changed")
	}
}
