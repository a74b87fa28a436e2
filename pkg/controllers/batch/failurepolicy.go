package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// matchFailurePolicy returns the action of the first rule that matches a failed pod, "" if there is none, and for FailJob the
// message of the Job's condition.
func matchFailurePolicy(policy *batchv1.PodFailurePolicy, p *corev1.Pod) (batchv1.PodFailurePolicyAction, string) {
	if policy == nil {
		return "", ""
	}
	for i, rule := range policy.Rules {
		match := matchRule(&rule, p)
		if match == "" {
			continue
		}
		switch rule.Action {
		case batchv1.PodFailurePolicyActionFailJob:
			return rule.Action, fmt.Sprintf("%s matching %s rule at index %d", match, rule.Action, i)
		case batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionCount:
			return rule.Action, ""
		}
	}
	return "", ""
}

// matchRule describes what of a failed pod a rule matches. It returns "" if the rule does not match.
func matchRule(rule *batchv1.PodFailurePolicyRule, p *corev1.Pod) string {
	switch {
	case rule.OnExitCodes != nil:
		for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
			if matchExitCode(rule.OnExitCodes, &s) {
				return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", s.Name, p.Namespace, p.Name, s.State.Terminated.ExitCode)
			}
		}
	case rule.OnPodConditions != nil:
		for _, c := range p.Status.Conditions {
			if slices.Contains(rule.OnPodConditions, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c.Type, Status: c.Status}) {
				return fmt.Sprintf("Pod %s/%s has condition %s", p.Namespace, p.Name, c.Type)
			}
		}
	}
	return ""
}

func matchExitCode(r *batchv1.PodFailurePolicyOnExitCodesRequirement, s *corev1.ContainerStatus) bool {
	ended := s.State.Terminated
	if ended == nil || ended.ExitCode == 0 || r.ContainerName != nil && *r.ContainerName != s.Name {
		return false
	}
	switch r.Operator {
	case batchv1.PodFailurePolicyOnExitCodesOpIn:
		return slices.Contains(r.Values, ended.ExitCode)
	case batchv1.PodFailurePolicyOnExitCodesOpNotIn:
		return !slices.Contains(r.Values, ended.ExitCode)
	}
	return false
}

// countsFailure reports whether a failed pod counts towards the backoff limits: every one does, unless a rule ignores it.
func countsFailure(policy *batchv1.PodFailurePolicy, p *corev1.Pod) bool {
	action, _ := matchFailurePolicy(policy, p)
	return action != batchv1.PodFailurePolicyActionIgnore
}
