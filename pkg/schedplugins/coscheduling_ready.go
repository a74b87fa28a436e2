package schedplugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
)

// notReady returns why a pod of a group need not be tried on any node, or "".
func (p *coscheduling) notReady(pod *corev1.Pod, key objects.Key, group *crdPodGroup) string {
	if p.holds(p.rejected, key) {
		return failedRecently(key)
	}
	n, gated, known := p.siblings(key)
	switch need := int(group.Spec.MinMember); {
	case !known:
	case n < need:
		return fmt.Sprintf("pre-filter pod %v cannot find enough sibling pods, current pods number: %v, minMember of group: %v", pod.Name, n, need)
	case n-gated < need:
		return fmt.Sprintf("pre-filter pod %v cannot proceed due to gated pods in the same PodGroup", pod.Name)
	}
	return ""
}

func failedRecently(key objects.Key) string { return fmt.Sprintf("podGroup %v failed recently", key) }

// siblings returns the number of pods of a group that have not ended, and of those with scheduling gates; false in a simulation, which does not know them.
func (p *coscheduling) siblings(key objects.Key) (n, gated int, known bool) {
	caches := p.api().Caches()
	if caches == nil {
		return 0, 0, false
	}
	for _, pod := range caches.Pods().ByIndex(byLabel, key.String()) {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		n++
		if len(pod.Spec.SchedulingGates) > 0 {
			gated++
		}
	}
	return n, gated, true
}

// lacking returns what of the resources the nodes do not have besides the requests of pods of other groups, or "".
func lacking(nodes []framework.NodeInfo, want corev1.ResourceList, pods int64, key objects.Key) string {
	left := want.DeepCopy()
	count := left[corev1.ResourcePods]
	count.Set(pods)
	left[corev1.ResourcePods] = count
	for _, n := range nodes {
		if n.Node() == nil {
			continue
		}
		free := n.Node().Status.Allocatable.DeepCopy()
		for _, other := range n.GetPods() {
			if of, ok := labelledGroup(other.GetPod()); ok && of == key {
				continue
			}
			subtract(free, other.GetPod())
		}
		for name, q := range left {
			if has, ok := free[name]; ok && has.Sign() > 0 {
				q.Sub(has)
				left[name] = q
			}
		}
	}
	for name, q := range left {
		if q.Sign() > 0 {
			return fmt.Sprintf("%s: %s", name, q.String())
		}
	}
	return ""
}

// subtract subtracts a pod and its requests.
func subtract(from corev1.ResourceList, pod *corev1.Pod) {
	if q, ok := from[corev1.ResourcePods]; ok {
		one := q.DeepCopy()
		one.Set(1)
		q.Sub(one)
		from[corev1.ResourcePods] = q
	}
	for i := range pod.Spec.Containers {
		for name, amount := range pod.Spec.Containers[i].Resources.Requests {
			if q, ok := from[name]; ok {
				q.Sub(amount)
				from[name] = q
			}
		}
	}
}
