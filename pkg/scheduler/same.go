package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kube-scheduler/framework"
)

// schedulingPropertiesEqual reports whether no scheduling result can depend on the difference between two versions of a node, as
// after a heartbeat.
func schedulingPropertiesEqual(a, b *corev1.Node) bool {
	return nodeChanges(a, b) == framework.None && equality.Semantic.DeepEqual(a.Status.Images, b.Status.Images)
}

// nodeChanges returns the actions of a node's update, as in the events that plugins register for.
func nodeChanges(old, node *corev1.Node) framework.ActionType {
	var a framework.ActionType
	note := func(changed bool, action framework.ActionType) {
		if changed {
			a |= action
		}
	}
	note(!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable), framework.UpdateNodeAllocatable)
	note(!maps.Equal(old.Labels, node.Labels), framework.UpdateNodeLabel)
	note(old.Spec.Unschedulable != node.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints), framework.UpdateNodeTaint)
	note(!sameConditions(old.Status.Conditions, node.Status.Conditions), framework.UpdateNodeCondition)
	note(!maps.Equal(old.Annotations, node.Annotations), framework.UpdateNodeAnnotation)
	note(!equality.Semantic.DeepEqual(old.Status.DeclaredFeatures, node.Status.DeclaredFeatures), framework.UpdateNodeDeclaredFeature)
	return a
}

// sameConditions compares the types and statuses of conditions, without times and messages.
func sameConditions(a, b []corev1.NodeCondition) bool {
	if len(a) != len(b) {
		return false
	}
	status := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(a))
	for _, c := range a {
		status[c.Type] = c.Status
	}
	for _, c := range b {
		if status[c.Type] != c.Status {
			return false
		}
	}
	return true
}

// podChanges returns the actions of a pod's update, as in the events that plugins register for.
func podChanges(old, pod *corev1.Pod) framework.ActionType {
	var a framework.ActionType
	if !maps.Equal(old.Labels, pod.Labels) {
		a |= framework.UpdatePodLabel
	}
	if len(old.Spec.Tolerations) != len(pod.Spec.Tolerations) {
		a |= framework.UpdatePodToleration
	}
	if len(old.Spec.SchedulingGates) > 0 && len(pod.Spec.SchedulingGates) == 0 {
		a |= framework.UpdatePodSchedulingGatesEliminated
	}
	if !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) {
		a |= framework.UpdatePodGeneratedResourceClaim
	}
	if resizable(old, pod) && requestsLess(requestsOf(old), requestsOf(pod)) {
		a |= framework.UpdatePodScaleDown
	}
	return a
}

// resizable reports whether the requests of two versions of a pod can differ: whether the spec, or the resize status,
// differs.
func resizable(old, pod *corev1.Pod) bool {
	return old.Generation != pod.Generation || !equality.Semantic.DeepEqual(old.Status.ContainerStatuses, pod.Status.ContainerStatuses)
}

func requestsLess(old, now framework.PodResource) bool {
	a, b := old.Resource.(*resources), now.Resource.(*resources)
	if b.cpu < a.cpu || b.memory < a.memory || b.storage < a.storage {
		return true
	}
	for name, v := range a.scalar {
		if b.scalar[name] < v {
			return true
		}
	}
	return false
}

// sameSums reports whether both versions of a pod give the same sums on its node and the same results of affinity terms.
func sameSums(a, b *podInfo) bool {
	return a.requested().equal(b.requested()) && a.requests.Non0CPU == b.requests.Non0CPU && a.requests.Non0Mem == b.requests.Non0Mem &&
		maps.Equal(a.pod.Labels, b.pod.Labels) && (a.pod.DeletionTimestamp == nil) == (b.pod.DeletionTimestamp == nil)
}
