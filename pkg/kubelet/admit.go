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
)

// admit checks once whether the node takes the pod at all: the scheduler may have placed it from an old state, and a pod
// may name its node itself. It returns why not. Pods are admitted one after the other, so that no two get the same room.
func (w *worker) admit(ctx context.Context, pod *corev1.Pod) *verdict {
	w.admission.Lock()
	defer w.admission.Unlock()
	refusal := w.refusal(ctx, pod)
	if refusal == nil {
		w.mu.Lock()
		w.admitted = true
		w.mu.Unlock()
	}
	return refusal
}

func (w *worker) refusal(ctx context.Context, pod *corev1.Pod) *verdict {
	if _, ok := w.view(w.uid); ok {
		return nil // it runs here already
	}
	if !w.suits(ctx, pod) {
		return &verdict{corev1.PodFailed, "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	return w.noRoom(pod, w.currentNode())
}

// suits reports whether the pod may be on this node. A node that seems not to suit is looked up again: its labels may have
// changed since, and the pod come here for that.
func (w *worker) suits(ctx context.Context, pod *corev1.Pod) bool {
	wanted := nodeaffinity.GetRequiredNodeAffinity(pod)
	if ok, err := wanted.Match(w.currentNode()); err != nil || ok {
		return true // an affinity that cannot be read is the API server's to refuse
	}
	got, err := w.client.Get(ctx, w.nodeTarget(), metav1.GetOptions{})
	if err != nil {
		return false
	}
	node := got.(*corev1.Node)
	w.setNode(node)
	ok, err := wanted.Match(node)
	return err != nil || ok
}

// noRoom says what the node has too little of, if anything.
func (w *worker) noRoom(pod *corev1.Pod, node *corev1.Node) *verdict {
	wanted := podresources.PodRequests(pod, podresources.PodResourcesOptions{})
	used, pods := w.inUse(pod)
	if room := node.Status.Allocatable[corev1.ResourcePods]; int64(pods)+1 > room.Value() {
		return outOf(corev1.ResourcePods, 1, int64(pods), room.Value())
	}
	for _, name := range slices.SortedFunc(maps.Keys(wanted), cmp.Compare[corev1.ResourceName]) {
		want, has, room := wanted[name], used[name], node.Status.Allocatable[name]
		sum := want.DeepCopy()
		sum.Add(has)
		if !want.IsZero() && sum.Cmp(room) > 0 {
			return outOf(name, amount(name, want), amount(name, has), amount(name, room))
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, want, used, room int64) *verdict {
	return &verdict{corev1.PodFailed, "OutOf" + string(name), fmt.Sprintf(
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

// inUse adds up what the node's other pods that have been admitted ask for.
func (w *worker) inUse(pod *corev1.Pod) (corev1.ResourceList, int) {
	sum, pods := corev1.ResourceList{}, 0
	for _, other := range w.pods.ByIndex(byNode, w.Name) {
		if other.UID == pod.UID || isFinished(other.Status.Phase) {
			continue
		}
		if _, ok := w.view(other.UID); !ok && !w.host.admitted(other) {
			continue
		}
		pods++
		for name, q := range podresources.PodRequests(other, podresources.PodResourcesOptions{}) {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum, pods
}
