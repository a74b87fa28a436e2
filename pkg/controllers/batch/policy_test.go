package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatchSuccessPolicy(t *testing.T) {
	rule := func(list string, count int32) batchv1.SuccessPolicyRule {
		var r batchv1.SuccessPolicyRule
		if list != "" {
			r.SucceededIndexes = &list
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for i, c := range []struct {
		rules     []batchv1.SuccessPolicyRule
		succeeded string
		want      string
	}{
		{nil, "0-9", ""},
		{[]batchv1.SuccessPolicyRule{rule("", 1)}, "", ""},
		{[]batchv1.SuccessPolicyRule{rule("", 2)}, "4", ""},
		{[]batchv1.SuccessPolicyRule{rule("", 2)}, "4,7", "Matched rules at index 0"},
		{[]batchv1.SuccessPolicyRule{rule("0,2-3", 0)}, "0-2", ""},
		{[]batchv1.SuccessPolicyRule{rule("0,2-3", 0)}, "0-3", "Matched rules at index 0"},
		{[]batchv1.SuccessPolicyRule{rule("0,2-3", 1)}, "3,5", "Matched rules at index 0"},
		{[]batchv1.SuccessPolicyRule{rule("0,2-3", 1)}, "1,5", ""},
		{[]batchv1.SuccessPolicyRule{rule("0", 0), rule("", 3)}, "1-3", "Matched rules at index 1"},
		{[]batchv1.SuccessPolicyRule{rule("bad", 1)}, "1-3", ""},
		{[]batchv1.SuccessPolicyRule{rule("8-20", 0)}, "8,9", "Matched rules at index 0"}, // there are 10 completions
	} {
		var policy *batchv1.SuccessPolicy
		if c.rules != nil {
			policy = &batchv1.SuccessPolicy{Rules: c.rules}
		}
		if got := matchSuccessPolicy(policy, 10, parseIndexes(c.succeeded, 10)); got != c.want {
			t.Errorf("%d: %s: got %q, want %q", i, c.succeeded, got, c.want)
		}
	}
}

func TestMatchFailurePolicy(t *testing.T) {
	onCodes := func(action batchv1.PodFailurePolicyAction, container string, op batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
		r := &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: op, Values: codes}
		if container != "" {
			r.ContainerName = &container
		}
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: r}
	}
	onDisruption := func(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}}
	}
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended("ok", 0), ended("main", 42), {Name: "runs"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("init", 7)}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	in, notIn := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	fail, ignore := batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore
	for _, c := range []struct {
		name    string
		rules   []batchv1.PodFailurePolicyRule
		action  batchv1.PodFailurePolicyAction
		message string
	}{
		{"no rule", nil, "", ""},
		{"exit code", []batchv1.PodFailurePolicyRule{onCodes(fail, "", in, 1, 42)}, fail, "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 0"},
		{"of another container", []batchv1.PodFailurePolicyRule{onCodes(fail, "other", in, 42)}, "", ""},
		{"of an init container", []batchv1.PodFailurePolicyRule{onCodes(fail, "init", in, 7)}, fail, "Container init for pod ns/p failed with exit code 7 matching FailJob rule at index 0"},
		{"other exit codes", []batchv1.PodFailurePolicyRule{onCodes(ignore, "main", notIn, 42), onCodes(ignore, "", notIn, 1)}, ignore, ""},
		{"success is no failure", []batchv1.PodFailurePolicyRule{onCodes(fail, "ok", notIn, 42)}, "", ""},
		{"condition", []batchv1.PodFailurePolicyRule{onCodes(fail, "", in, 1), onDisruption(fail)}, fail, "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 1"},
		{"first rule", []batchv1.PodFailurePolicyRule{onDisruption(ignore), onCodes(fail, "", in, 42)}, ignore, ""},
		{"count", []batchv1.PodFailurePolicyRule{onDisruption(batchv1.PodFailurePolicyActionCount)}, batchv1.PodFailurePolicyActionCount, ""},
		{"unknown action", []batchv1.PodFailurePolicyRule{onDisruption("Later"), onDisruption(batchv1.PodFailurePolicyActionFailIndex)}, batchv1.PodFailurePolicyActionFailIndex, ""},
	} {
		action, message := matchFailurePolicy(&batchv1.PodFailurePolicy{Rules: c.rules}, pod)
		if action != c.action || message != c.message {
			t.Errorf("%s: got %q %q", c.name, action, message)
		}
	}
	if action, message := matchFailurePolicy(nil, pod); action != "" || message != "" {
		t.Error("without a policy")
	}
}
