package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/eviction"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// admit checks that the node matches the pod and has room for it, and returns the rejection if not: the scheduler may have
// bound the pod from an old state, and a pod may name its node itself. A kubelet admits its pods one after the other, so that
// no two use the same resources.
func (w *podWorker) admit(ctx context.Context, pod *corev1.Pod) *podEnd {
	w.kubelet.admission.Lock()
	defer w.kubelet.admission.Unlock()
	rejection := w.rejection(ctx, pod)
	if rejection == nil {
		w.mu.Lock()
		w.admitted = true
		w.mu.Unlock()
	}
	return rejection
}

func (w *podWorker) rejection(ctx context.Context, pod *corev1.Pod) *podEnd {
	if _, ok := w.seen(); ok {
		return nil // an earlier kubelet has admitted it
	}
	return w.unfit(ctx, pod)
}

// unfit returns the rejection of a pod, or of its resize, by the state of the node; nil if the node has room. The caller holds the kubelet's
// admission lock.
func (w *podWorker) unfit(ctx context.Context, pod *corev1.Pod) *podEnd {
	if w.kubelet.isShuttingDown() {
		return &podEnd{phase: corev1.PodFailed, reason: notAdmittedReason, message: notAdmittedMessage}
	}
	if end := w.pressureRejection(pod); end != nil {
		return end
	}
	if end := w.otherSystem(pod); end != nil {
		return end
	}
	if !w.matchesNodeAffinity(ctx, pod) {
		return failedPredicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	node := w.kubelet.currentNode()
	return cmp.Or(w.insufficientResource(pod, node), w.usedPort(pod), untolerated(pod, node))
}

// pressureRejection returns the rejection by a node under pressure. Under memory pressure alone only BestEffort pods that do not tolerate it
// are rejected.
func (w *podWorker) pressureRejection(pod *corev1.Pod) *podEnd {
	now := w.kubelet.underPressure()
	if len(now) == 0 || isCritical(pod) {
		return nil
	}
	if len(now) == 1 && now[0] == corev1.NodeMemoryPressure {
		tolerates := func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}, true)
		}
		if podspec.QOS(&pod.Spec) != corev1.PodQOSBestEffort || slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
			return nil
		}
	}
	return &podEnd{phase: corev1.PodFailed, reason: eviction.Reason, message: fmt.Sprintf("The node had condition: %v. ", now)}
}

// matchesNodeAffinity reports whether the pod's node affinity matches the node. A node that does not match is read again: its labels may
// have changed just before the pod was bound.
func (w *podWorker) matchesNodeAffinity(ctx context.Context, pod *corev1.Pod) bool {
	wanted := nodeaffinity.GetRequiredNodeAffinity(pod)
	if ok, err := wanted.Match(w.kubelet.currentNode()); err != nil || ok {
		return true // the API server validates affinities
	}
	got, err := w.kubelet.client.Get(ctx, w.kubelet.nodeTarget(), metav1.GetOptions{})
	if err != nil {
		return false
	}
	node := got.(*corev1.Node)
	w.kubelet.setNode(node)
	ok, err := wanted.Match(node)
	return err != nil || ok
}

// insufficientResource returns the rejection by the first resource of which the node has too little, nil if it has room.
func (w *podWorker) insufficientResource(pod *corev1.Pod, node *corev1.Node) *podEnd {
	wanted := podresources.PodRequests(pod, podresources.PodResourcesOptions{})
	others := w.admittedPods(pod)
	if room := node.Status.Allocatable[corev1.ResourcePods]; int64(len(others))+1 > room.Value() {
		return outOf(corev1.ResourcePods, 1, int64(len(others)), room.Value())
	}
	maps.DeleteFunc(wanted, func(name corev1.ResourceName, q resource.Quantity) bool {
		return q.IsZero() || hasDevicesFor(pod, name)
	})
	if len(wanted) == 0 {
		return nil // the sum of the others, which takes time, does not matter
	}
	used := inUse(others)
	for _, name := range slices.SortedFunc(maps.Keys(wanted), cmp.Compare[corev1.ResourceName]) {
		want, has, room := wanted[name], used[name], node.Status.Allocatable[name]
		sum := want.DeepCopy()
		sum.Add(has)
		if sum.Cmp(room) > 0 {
			return outOf(name, amount(name, want), amount(name, has), amount(name, room))
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, want, used, room int64) *podEnd {
	return &podEnd{phase: corev1.PodFailed, reason: "OutOf" + string(name), message: fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, want, used, room)}
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// admitted reports whether a pod has been admitted since the kubelet was started.
func (h *Host) admitted(pod *corev1.Pod) bool {
	found := h.knownWorker(pod)
	if found == nil {
		return false
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	return found.admitted
}

// allocated returns a pod with the resources that its node has allocated to it.
func (h *Host) allocated(pod *corev1.Pod) *corev1.Pod {
	if w := h.knownWorker(pod); w != nil {
		return w.allocation.apply(pod)
	}
	return withResources(pod, allocatedByStatus(pod))
}

// admittedPods returns the node's other pods that have been admitted and have not finished, with the resources that are allocated to them.
func (w *podWorker) admittedPods(pod *corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, other := range w.kubelet.ownPods() {
		if other.UID == pod.UID || isFinished(other.Status.Phase) {
			continue
		}
		if _, ok := w.kubelet.view(other.UID); ok || w.kubelet.host.admitted(other) {
			out = append(out, w.kubelet.host.allocated(other))
		}
	}
	return out
}

// inUse returns the sum of the requests of pods.
func inUse(pods []*corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		for name, q := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}
