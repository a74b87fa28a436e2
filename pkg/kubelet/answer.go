package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// hear looks at a status that somebody has written, which is mostly the kubelet itself. That a pod has ended is taken for
// true. What others say otherwise (while its kubelet is silent a pod is not ready, for all they know) is answered with the
// next heartbeat and not at once: should two kubelets have the same node, they must not answer each other all the time.
func (h *Host) hear(pod *corev1.Pod, revision uint64) {
	status, _ := h.said(pod)
	switch {
	case status == nil:
	case isFinished(pod.Status.Phase) && !isFinished(status.Phase):
		h.wake(keyOf(pod), revision)
	case !agrees(pod.Status.Conditions, status.Conditions):
		h.mu.Lock()
		h.doubted[keyOf(pod)] = revision
		h.mu.Unlock()
	}
}

// answer says of pods anew what others have said otherwise. It may also have been an older status of the kubelet's own,
// which is over by now.
func (h *Host) answer() {
	h.mu.Lock()
	doubted := h.doubted
	h.doubted = map[objects.Key]uint64{}
	h.mu.Unlock()
	for key, revision := range doubted {
		pod, ok := h.pod(key)
		if !ok {
			continue
		}
		if status, w := h.said(pod); status != nil && !agrees(pod.Status.Conditions, status.Conditions) {
			h.postIfNone(key, &posting{worker: w, status: *status, report: trace.Report{Causes: []uint64{revision}}})
		}
	}
}

// said returns the last status of a pod that its worker has handed over, nil when there is none or it was the last.
func (h *Host) said(pod *corev1.Pod) (*corev1.PodStatus, *worker) {
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

// knownWorker returns the worker of a pod if there is one.
func (h *Host) knownWorker(pod *corev1.Pod) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers[keyOf(pod)] {
		if w.uid == pod.UID {
			return w
		}
	}
	return nil
}

// agrees reports whether a status says of the kubelet's own conditions what the kubelet says.
func agrees(shown, said []corev1.PodCondition) bool {
	for _, c := range own(said) {
		if !slices.ContainsFunc(shown, func(o corev1.PodCondition) bool { return o.Type == c.Type && o.Status == c.Status }) {
			return false
		}
	}
	return true
}
