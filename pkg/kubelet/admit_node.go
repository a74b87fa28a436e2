package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// failedPredicate returns the rejection of a pod that a rule of the scheduler forbids on its node.
func failedPredicate(name, why string) *podEnd {
	return &podEnd{phase: corev1.PodFailed, reason: name, message: "Predicate " + name + " failed: " + why}
}

// otherSystem returns the rejection of a pod for another operating system than the node's. Simulated nodes run pods for any.
func (w *podWorker) otherSystem(pod *corev1.Pod) *podEnd {
	own := w.kubelet.machine.system
	label, labeled := pod.Labels[corev1.LabelOSStable]
	switch {
	case w.simulated():
		return nil
	case labeled && label != own:
		return &podEnd{phase: corev1.PodFailed, reason: "PodOSSelectorNodeLabelDoesNotMatch",
			message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	case pod.Spec.OS != nil && string(pod.Spec.OS.Name) != own:
		return &podEnd{phase: corev1.PodFailed, reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// usedPort returns the rejection of a pod one of whose host ports another pod has.
func (w *podWorker) usedPort(pod *corev1.Pod) *podEnd {
	wanted := podref.HostPorts(pod)
	if len(wanted) == 0 {
		return nil
	}
	used := framework.HostPortInfo{}
	for _, other := range w.admittedPods(pod) {
		for _, p := range podref.HostPorts(other) {
			used.Add(p.HostIP, string(p.Protocol), p.HostPort)
		}
	}
	for _, p := range wanted {
		if used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort) {
			return failedPredicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
		}
	}
	return nil
}

// untolerated returns the rejection of a pod that does not tolerate a NoExecute taint of the node. Static pods tolerate all.
func untolerated(pod *corev1.Pod, node *corev1.Node) *podEnd {
	if isStatic(pod) {
		return nil
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }, true)
	if !found {
		return nil
	}
	return failedPredicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
}
