package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// observeStatus compares a status from the watch with the worker's own, which the kubelet has usually written itself. A
// final phase is accepted: the pod has ended. Changed conditions (the node lifecycle controller sets the pods of an
// unreachable node to not ready) are overwritten at the next heartbeat and not at once, since two kubelets of the same
// node would otherwise overwrite each other endlessly.
func (h *Host) observeStatus(pod *corev1.Pod, revision uint64) {
	status, _ := h.generatedStatus(pod)
	switch {
	case status == nil:
	case isFinished(pod.Status.Phase) && !isFinished(status.Phase):
		h.enqueue(keyOf(pod), revision)
	case !sameConditions(pod.Status.Conditions, status.Conditions):
		h.mu.Lock()
		h.overwritten[keyOf(pod)] = revision
		h.mu.Unlock()
	}
}

// reassert writes the kubelet's conditions again after other clients have overwritten them. If the overwriting status
// was an older one of the kubelet itself, the conditions are equal by now. It reports whether it has requested a write.
func (h *Host) reassert() (again bool) {
	h.mu.Lock()
	overwritten := h.overwritten
	h.overwritten = map[objects.Key]uint64{}
	h.mu.Unlock()
	for key, revision := range overwritten {
		pod, ok := h.pod(key)
		if !ok {
			continue
		}
		k := h.kubelet(pod.Spec.NodeName)
		if k != nil && k.leavesPod(pod) {
			continue
		}
		if k != nil && k.down() {
			h.mu.Lock()
			h.overwritten[key] = max(h.overwritten[key], revision)
			h.mu.Unlock()
			continue
		}
		if status, w := h.generatedStatus(pod); status != nil && !sameConditions(pod.Status.Conditions, status.Conditions) {
			h.repostStatus(key, &statusUpdate{worker: w, status: *status, report: trace.Report{Causes: []uint64{revision}}})
			again = true
		}
	}
	return again
}

// generatedStatus returns the last status that a pod's worker has generated; nil before the first one and after the
// worker has ended.
func (h *Host) generatedStatus(pod *corev1.Pod) (*corev1.PodStatus, *podWorker) {
	w := h.knownWorker(pod)
	if w == nil {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return nil, nil
	}
	return w.status, w
}

// sameConditions reports whether the kubelet's conditions have the same status in both lists.
func sameConditions(api, own []corev1.PodCondition) bool {
	for _, c := range kubeletConditions(own) {
		if !slices.ContainsFunc(api, func(o corev1.PodCondition) bool { return o.Type == c.Type && o.Status == c.Status }) {
			return false
		}
	}
	return true
}
