package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestDesiredHealthy follows the tables of the documentation: percentages are rounded up.
func TestDesiredHealthy(t *testing.T) {
	for _, test := range []struct {
		field, amount string
		expected      int32
		want          int32
	}{
		{"minAvailable", "3", 2, 3},
		{"minAvailable", "50%", 7, 4},
		{"minAvailable", "0%", 7, 0},
		{"minAvailable", "100%", 7, 7},
		{"maxUnavailable", "3", 2, 0},
		{"maxUnavailable", "1", 10, 9},
		{"maxUnavailable", "30%", 10, 7},
		{"maxUnavailable", "30%", 7, 4},
		{"maxUnavailable", "1%", 7, 6},
	} {
		amount := intstr.Parse(test.amount)
		spec := policyv1.PodDisruptionBudgetSpec{MinAvailable: &amount}
		if test.field == "maxUnavailable" {
			spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &amount}
		}
		got, err := desiredHealthy(&spec, test.expected)
		if err != nil || got != test.want {
			t.Errorf("%s %s of %d: got %d (%v), want %d", test.field, test.amount, test.expected, got, err, test.want)
		}
	}
	bad := intstr.FromString("half")
	if _, err := desiredHealthy(&policyv1.PodDisruptionBudgetSpec{MinAvailable: &bad}, 1); err == nil {
		t.Error("no error for an amount that is no percentage")
	}
}

// TestBudgetStatus checks what the counts of a budget allow.
func TestBudgetStatus(t *testing.T) {
	for _, test := range []struct {
		name    string
		counts  counts
		allowed int32
		reason  string
	}{
		{"a surplus", counts{healthy: 3, desired: 2, expected: 3}, 1, "True SufficientPods"},
		{"just enough", counts{healthy: 2, desired: 2, expected: 3}, 0, "False InsufficientPods"},
		{"too few", counts{healthy: 1, desired: 2, expected: 3}, 0, "False InsufficientPods"},
		{"none expected", counts{healthy: 3, desired: 0, expected: 0}, 0, "False InsufficientPods"},
	} {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
		b.Status.Conditions = []metav1.Condition{{Type: "DisruptionAllowed", Status: "True", Reason: "SufficientPods", ObservedGeneration: 6, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
		s := budgetStatus(b, test.counts, nil, noon)
		c := s.Conditions[0]
		if got := fmt.Sprint(c.Status, " ", c.Reason); s.DisruptionsAllowed != test.allowed || got != test.reason || c.ObservedGeneration != 7 || s.ObservedGeneration != 7 {
			t.Errorf("%s: got %+v", test.name, s)
		}
		if changed := c.LastTransitionTime.Equal(&metav1.Time{Time: noon}); changed != (c.Status == "False") {
			t.Errorf("%s: the condition changed at %v", test.name, c.LastTransitionTime)
		}
		if b.Status.Conditions[0].ObservedGeneration != 6 {
			t.Errorf("%s: the budget was changed", test.name)
		}
		if again := budgetStatus(&policyv1.PodDisruptionBudget{ObjectMeta: b.ObjectMeta, Status: s}, test.counts, nil, noon.Add(time.Hour)); !sameStatus(&again, &s) {
			t.Errorf("%s: the second status differs from the first:\n%s", test.name, cmp.Diff(s, again))
		}
	}
}

func TestFailedStatus(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2, CurrentHealthy: 3, ObservedGeneration: 4}}
	want := policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 3, ObservedGeneration: 4, Conditions: []metav1.Condition{{
		Type: "DisruptionAllowed", Status: "False", Reason: "SyncFailed", Message: "oh", ObservedGeneration: 4, LastTransitionTime: metav1.NewTime(noon)}}}
	if diff := cmp.Diff(want, failedStatus(b, fmt.Errorf("oh"), noon)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// budgetPod returns a pod that is Ready.
func budgetPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if change != nil {
		change(p)
	}
	return p
}

// TestDisruptedPods checks which evicted pods stay recorded, and that they don't count as healthy.
func TestDisruptedPods(t *testing.T) {
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }
	pods := []*corev1.Pod{
		budgetPod("other", nil), budgetPod("young", nil), budgetPod("old", nil), budgetPod("late", nil), budgetPod("deleting", deleting),
		budgetPod("unready", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
	}
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }
	d := disruptedPods(pods, map[string]metav1.Time{
		"young": ago(time.Second), "old": ago(90 * time.Second), "late": ago(2 * time.Minute), "deleting": ago(time.Second), "gone": ago(time.Second),
	}, noon)
	want := map[string]metav1.Time{"young": ago(time.Second), "old": ago(90 * time.Second)}
	if diff := cmp.Diff(want, d.pending); diff != "" || d.recheck != 30*time.Second || len(d.notDeleted) != 1 || d.notDeleted[0].Name != "late" {
		t.Errorf("got %+v (-want +got):\n%s", d, diff)
	}
	if n := countHealthy(pods, d.pending); n != 2 { // other and late
		t.Errorf("%d pods are healthy, want 2", n)
	}
}

// TestDisruptionTarget checks which conditions end.
func TestDisruptionTarget(t *testing.T) {
	with := func(change func(*corev1.Pod, *corev1.PodCondition)) *corev1.Pod {
		p := &corev1.Pod{}
		c := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}
		if change != nil {
			change(p, &c)
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
		return p
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"evicted":       {with(nil), true},
		"not disrupted": {&corev1.Pod{}, false},
		"ended":         {with(func(_ *corev1.Pod, c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }), false},
		"by the kubelet": {with(func(_ *corev1.Pod, c *corev1.PodCondition) {
			c.Reason = corev1.PodReasonTerminationByKubelet
		}), false},
		"being deleted": {with(func(p *corev1.Pod, _ *corev1.PodCondition) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), false},
		"failed":        {with(func(p *corev1.Pod, _ *corev1.PodCondition) { p.Status.Phase = corev1.PodFailed }), false},
	} {
		if got := disruptionTarget(test.pod) != nil; got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
