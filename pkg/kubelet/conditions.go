package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// ownConditions are the conditions that a kubelet sets, in the order in which it writes them, except that those of a resize come first.
var ownConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// conditions returns the pod's conditions: first those of other clients, unchanged, then the kubelet's own. sandbox reports
// whether the pod's sandbox runs.
func conditions(pod *corev1.Pod, s, old corev1.PodStatus, sandbox bool, now time.Time) []corev1.PodCondition {
	all := append(slices.Clone(s.InitContainerStatuses), s.ContainerStatuses...)
	containers := containersReady(pod, all, s.Phase)
	others := otherConditions(pod.Status.Conditions)
	own := []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: boolStatus(sandbox)},
		initialized(pod, all, s.Phase),
		podReady(pod, others, containers),
		containers,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	for i := range own {
		c := &own[i]
		c.ObservedGeneration = pod.Generation
		c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		for _, list := range [][]corev1.PodCondition{pod.Status.Conditions, old.Conditions} {
			for _, before := range list {
				if before.Type == c.Type && before.Status == c.Status {
					c.LastTransitionTime = before.LastTransitionTime
				}
			}
		}
	}
	return slices.Concat(others, own) // of exact capacity, since it is kept for as long as the pod
}

// withDisruption adds the condition DisruptionTarget of a pod that the kubelet ends to its conditions.
func (in *statusInput) withDisruption(list []corev1.PodCondition) []corev1.PodCondition {
	c := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: in.end.message,
		ObservedGeneration: in.pod.Generation, LastTransitionTime: metav1.NewTime(in.now).Rfc3339Copy(),
	}
	for _, before := range slices.Concat(in.pod.Status.Conditions, in.old.Conditions) {
		if before.Type == c.Type && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	return replaceCondition(list, c)
}

// replaceCondition returns a list with c in the place of the condition of its type, or before the kubelet's own.
func replaceCondition(list []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	out := slices.Clone(list)
	if i := slices.IndexFunc(out, func(o corev1.PodCondition) bool { return o.Type == c.Type }); i >= 0 {
		out[i] = c
		return out
	}
	i := slices.IndexFunc(out, func(o corev1.PodCondition) bool { return slices.Contains(ownConditions, o.Type) })
	if i < 0 {
		i = len(out)
	}
	return slices.Insert(out, i, c)
}

// mergeConditions returns the conditions to write: those of other clients in the API, and those that the kubelet has generated.
func mergeConditions(api, generated []corev1.PodCondition) []corev1.PodCondition {
	out := slices.Concat(otherConditions(api), kubeletConditions(generated))
	for _, c := range generated {
		if c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet {
			out = replaceCondition(out, c)
		}
	}
	return out
}

// kubeletConditions returns the conditions that a kubelet sets.
func kubeletConditions(list []corev1.PodCondition) []corev1.PodCondition {
	out := make([]corev1.PodCondition, 0, len(list))
	for _, c := range list {
		if slices.Contains(ownConditions, c.Type) {
			out = append(out, c)
		}
	}
	return out
}

// otherConditions returns the conditions that other clients set.
func otherConditions(list []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range list {
		if !slices.Contains(ownConditions, c.Type) {
			out = append(out, c)
		}
	}
	return out
}

func boolStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// unmet returns a false condition that lists the containers of unknown and of wrong status, or a true one if both lists
// are empty.
func unmet(kind corev1.PodConditionType, reason, state string, unknown, wrong []string) corev1.PodCondition {
	var messages []string
	if len(unknown) > 0 {
		messages = append(messages, fmt.Sprintf("containers with unknown status: %s", unknown))
	}
	if len(wrong) > 0 {
		messages = append(messages, fmt.Sprintf("containers with %s status: %s", state, wrong))
	}
	if len(messages) == 0 {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: strings.Join(messages, ", ")}
}

func containersReady(pod *corev1.Pod, all []corev1.ContainerStatus, phase corev1.PodPhase) corev1.PodCondition {
	var unknown, unready []string
	note := func(c *corev1.Container) {
		switch s := statusOf(all, c.Name); {
		case s == nil:
			unknown = append(unknown, c.Name)
		case !s.Ready:
			unready = append(unready, c.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; isSidecar(c) {
			note(c)
		}
	}
	for i := range pod.Spec.Containers {
		note(&pod.Spec.Containers[i])
	}
	no := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch {
	case phase == corev1.PodSucceeded && len(unknown) == 0:
		no.Reason = "PodCompleted"
		return no
	case phase == corev1.PodFailed:
		no.Reason = "PodFailed"
		return no
	}
	return unmet(corev1.ContainersReady, "ContainersNotReady", "unready", unknown, unready)
}

func podReady(pod *corev1.Pod, others []corev1.PodCondition, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var messages []string
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(others, func(o corev1.PodCondition) bool { return o.Type == gate.ConditionType })
		switch {
		case i < 0:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case others[i].Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), others[i].Status))
		}
	}
	if len(messages) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(messages, ", ")
	}
	return c
}

func initialized(pod *corev1.Pod, all []corev1.ContainerStatus, phase corev1.PodPhase) corev1.PodCondition {
	var unknown, incomplete []string
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s := statusOf(all, c.Name)
		switch {
		case s == nil:
			unknown = append(unknown, c.Name)
		case isSidecar(c) && (s.Started == nil || !*s.Started), !isSidecar(c) && !s.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	yes := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if phase == corev1.PodSucceeded && len(unknown) == 0 {
		yes.Reason = "PodCompleted"
		return yes
	}
	for i := range pod.Spec.Containers {
		s := statusOf(all, pod.Spec.Containers[i].Name)
		if s != nil && (s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil) {
			return yes
		}
	}
	return unmet(corev1.PodInitialized, "ContainersNotInitialized", "incomplete", unknown, incomplete)
}
