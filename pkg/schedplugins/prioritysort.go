package schedplugins

import (
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"
)

// prioritySort sorts pods by priority, and pods of equal priority by the time in the queue.
type prioritySort struct{ cooperative }

func newPrioritySort(framework.Handle) framework.Plugin { return prioritySort{} }

func (prioritySort) Name() string { return "PrioritySort" }

func (prioritySort) Less(a, b framework.QueuedPodInfo) bool {
	p, q := corev1.PodPriority(a.GetPodInfo().GetPod()), corev1.PodPriority(b.GetPodInfo().GetPod())
	return p > q || p == q && a.GetTimestamp().Before(b.GetTimestamp())
}
