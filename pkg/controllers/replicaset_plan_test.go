package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func pods(n int, change func(*corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = runningPod(fmt.Sprintf("p%03d", i), change)
	}
	return out
}

func TestPlanReplicas(t *testing.T) {
	for _, c := range []struct {
		name                string
		want                int32
		have, create, gone  int
		relatedMustBeAsked  bool
		relatedMayNotBeHere bool
	}{
		{name: "enough", want: 3, have: 3},
		{name: "too few", want: 5, have: 3, create: 2},
		{name: "far too few", want: 5000, have: 0, create: 500},
		{name: "too many", want: 3, have: 5, gone: 2, relatedMustBeAsked: true},
		{name: "all too many", want: 0, have: 5, gone: 5, relatedMayNotBeHere: true},
		{name: "far too many", want: 0, have: 800, gone: 500, relatedMustBeAsked: true},
	} {
		s := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &c.want}}
		asked := false
		create, remove := planReplicas(s, pods(c.have, nil), func() []*corev1.Pod { asked = true; return nil }, noon)
		if create != c.create || len(remove) != c.gone {
			t.Errorf("%s: create %d, delete %d, want %d, %d", c.name, create, len(remove), c.create, c.gone)
		}
		if c.relatedMustBeAsked && !asked || c.relatedMayNotBeHere && asked {
			t.Errorf("%s: related pods asked for: %t", c.name, asked)
		}
	}
}

// TestPlanSpreads: of equal pods those go that share their node with most pods of the same owner, those of other sets too.
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
	staying := []*corev1.Pod{
		runningPod("long", func(p *corev1.Pod) {
			labelled(p)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-2 * time.Hour))
		}),
		runningPod("soon", labelled),
		runningPod("not-ready", func(p *corev1.Pod) { p.Status.Conditions = nil; p.Labels = map[string]string{"a": "1"} }),
	}
	got, again := replicaSetStatus(s, staying, pods(2, nil), nil, noon)
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
		t.Errorf("the first failure is forgotten for %+v", c)
	}
	if c := replicaSetConditions(s, 3, nil, noon); len(c) != 0 {
		t.Errorf("still failing: %+v", c)
	}
	if len(s.Status.Conditions) != 1 {
		t.Error("the old status was changed")
	}
}

func TestJudge(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs", UID: "mine"}}
	dying := owner.DeepCopy()
	dying.DeletionTimestamp = &metav1.Time{Time: noon}
	selector := labels.SelectorFromSet(labels.Set{"a": "1"})
	obj := func(label, controller string, deleted bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": label}}}
		if controller != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "bystander"}, {UID: "x", Controller: new(true)}}
			p.OwnerReferences[1].UID = owner.UID
			if controller != "mine" {
				p.OwnerReferences[1].UID = "theirs"
			}
		}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		return p
	}
	for _, c := range []struct {
		name  string
		owner *appsv1.ReplicaSet
		obj   *corev1.Pod
		want  verdict
	}{
		{"mine", owner, obj("1", "mine", false), keep},
		{"mine, being deleted", owner, obj("1", "mine", true), keep},
		{"mine, of a dying owner", dying, obj("1", "mine", false), keep},
		{"mine no more", owner, obj("2", "mine", false), release},
		{"mine no more, of a dying owner", dying, obj("2", "mine", false), ignore},
		{"theirs", owner, obj("1", "theirs", false), ignore},
		{"nobody's", owner, obj("1", "", false), adopt},
		{"nobody's, being deleted", owner, obj("1", "", true), ignore},
		{"nobody's, for a dying owner", dying, obj("1", "", false), ignore},
		{"nobody's, and of no interest", owner, obj("2", "", false), ignore},
	} {
		if got := judge(c.owner, selector, c.obj); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPodFor(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}, Finalizers: []string{"x/y"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "rs", Namespace: "ns", UID: "mine"}}
	p := podFor(template, owner, replicaSetKind)
	if p.GenerateName != "rs-" || p.Namespace != "ns" || !metav1.IsControlledBy(p, owner) || p.Annotations["b"] != "2" || p.Finalizers[0] != "x/y" {
		t.Errorf("got %+v", p.ObjectMeta)
	}
	p.Labels["a"], p.Spec.Containers[0].Name = "changed", "changed"
	if template.Labels["a"] != "1" || template.Spec.Containers[0].Name != "c" {
		t.Error("the pod shares with its template")
	}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestPlanTaints(t *testing.T) {
	for _, c := range []struct {
		name      string
		ready     corev1.ConditionStatus
		cordoned  bool
		blind     bool
		have      []corev1.Taint
		want      string
		unchanged bool
	}{
		{name: "well", ready: corev1.ConditionTrue, unchanged: true},
		{name: "not ready", ready: corev1.ConditionFalse, want: "not-ready:NoSchedule not-ready:NoExecute"},
		{name: "unreachable", ready: corev1.ConditionUnknown, want: "unreachable:NoSchedule unreachable:NoExecute"},
		{name: "none reachable: nothing is evicted", ready: corev1.ConditionUnknown, blind: true, want: "unreachable:NoSchedule"},
		{
			name: "well again", ready: corev1.ConditionTrue,
			have: []corev1.Taint{taint("mine", corev1.TaintEffectNoExecute), taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)},
			want: "mine:NoExecute",
		},
		{
			name: "from one to the other", ready: corev1.ConditionUnknown,
			have: []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)},
			want: "unreachable:NoSchedule unreachable:NoExecute",
		},
		{name: "cordoned", ready: corev1.ConditionTrue, cordoned: true, want: "unschedulable:NoSchedule"},
		{
			name: "cordoned already", ready: corev1.ConditionTrue, cordoned: true,
			have: []corev1.Taint{taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}, unchanged: true,
		},
	} {
		n := &corev1.Node{
			Spec:   corev1.NodeSpec{Taints: c.have, Unschedulable: c.cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready}}},
		}
		got := planTaints(n, c.blind, noon)
		if c.unchanged || got == nil {
			if got != nil || !c.unchanged {
				t.Errorf("%s: got %+v", c.name, got)
			}
			continue
		}
		var text []string
		for _, taint := range got.list {
			text = append(text, strings.TrimPrefix(taint.Key, "node.kubernetes.io/")+":"+string(taint.Effect))
		}
		if s := strings.Join(text, " "); s != c.want {
			t.Errorf("%s: got %s, want %s", c.name, s, c.want)
		}
	}
}

func TestToleratesFor(t *testing.T) {
	one, five := int64(1), int64(5)
	a, b := taint("a", corev1.TaintEffectNoExecute), corev1.Taint{Key: "b", Value: "v", Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name        string
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string
	}{
		{"no taints", nil, nil, "0s false"},
		{"not tolerated", []corev1.Taint{a}, nil, "0s true"},
		{"for ever", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, "0s false"},
		{"everything", []corev1.Taint{a, b}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, "0s false"},
		{"for a while", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &five}}, "5s true"},
		{"the shortest", []corev1.Taint{a, b}, []corev1.Toleration{
			{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &five}, {Key: "b", Value: "v", TolerationSeconds: &one},
		}, "1s true"},
		{"another value", []corev1.Taint{b}, []corev1.Toleration{{Key: "b", Value: "w"}}, "0s true"},
		{"another effect", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, "0s true"},
	} {
		after, evict := toleratesFor(c.taints, c.tolerations)
		if got := fmt.Sprint(after, evict); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
