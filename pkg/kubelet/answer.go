package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/trace"
)

// answer looks at a status that somebody has written, which is mostly the kubelet itself. What others say of a pod while
// its kubelet is silent (it is not ready, for all they know) is said anew; that it has ended is taken for true.
func (h *Host) answer(pod *corev1.Pod, revision uint64) {
	w := h.knownWorker(pod)
	if w == nil {
		return
	}
	w.mu.Lock()
	status, removed := w.status, w.removed
	w.mu.Unlock()
	switch {
	case status == nil || removed:
	case isFinished(pod.Status.Phase) && !isFinished(status.Phase):
		h.wake(keyOf(pod), revision)
	case !agrees(pod.Status.Conditions, status.Conditions):
		// It may also be an older one of ours. Then nothing is left to be written when it comes to that.
		h.postIfNone(w.key, &posting{worker: w, status: *status, report: trace.Report{Causes: []uint64{revision}}})
	}
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
