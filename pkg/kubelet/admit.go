package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	corev1 "k8s.io/api/core/v1"
)

// admit checks once whether the node takes the pod at all: the scheduler may have placed it from an old state, and a pod
// may name its node itself. It returns why not.
func (w *worker) admit(pod *corev1.Pod) *verdict {
	if _, ok := w.view(w.uid); ok {
		return nil // it runs here already
	}
	node := w.currentNode()
	if node == nil {
		return nil
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err == nil && !ok {
		return &verdict{corev1.PodFailed, "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
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

// inUse adds up what the node's other pods that have been admitted ask for.
func (w *worker) inUse(pod *corev1.Pod) (corev1.ResourceList, int) {
	sum, pods := corev1.ResourceList{}, 0
	for _, other := range w.pods.By(byNode, w.Name) {
		if other.UID == pod.UID || isFinished(other.Status.Phase) {
			continue
		}
		if _, ok := w.view(other.UID); !ok {
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
