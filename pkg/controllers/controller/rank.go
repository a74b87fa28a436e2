package controller

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RankForDeletion sorts pods so that those to delete first come first. The criteria, in order: not bound to a node before
// bound, Pending before Unknown before Running, not ready before ready, lower pod-deletion-cost, more related pods on the
// same node (related has their number by node), shorter time ready, more restarts, younger. Times are compared by their
// order of magnitude, so that chance (the UID) decides among pods of about the same age.
func RankForDeletion(pods []*corev1.Pod, related map[string]int, now time.Time) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]),
			falseFirst(IsPodReady(a), IsPodReady(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(related[b.Spec.NodeName], related[a.Spec.NodeName]),
			readyLonger(a, b, now),
			compareRestarts(a, b),
			younger(a.CreationTimestamp, b.CreationTimestamp, a.UID, b.UID, now),
		)
	})
}

var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// deletionCost returns the value of the annotation controller.kubernetes.io/pod-deletion-cost, 0 if it is missing or
// invalid.
func deletionCost(p *corev1.Pod) int32 {
	value := p.Annotations[corev1.PodDeletionCost]
	if value == "" || value[0] != '-' && (value[0] < '1' || value[0] > '9') {
		return 0 // 0, or a form that the annotation does not allow, such as +1 or 01
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func readyLonger(a, b *corev1.Pod, now time.Time) int {
	sinceA, okA := PodReady(a)
	sinceB, okB := PodReady(b)
	if !okA || !okB {
		return 0
	}
	return younger(sinceA, sinceB, a.UID, b.UID, now)
}

// younger orders the later of two times first. For ages with the same binary logarithm the UIDs decide. A zero time comes
// before any other.
func younger(a, b metav1.Time, uidA, uidB types.UID, now time.Time) int {
	if a.Time.Equal(b.Time) {
		return 0
	}
	if a.IsZero() || b.IsZero() {
		return falseFirst(!a.IsZero(), !b.IsZero())
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(a.Time)), magnitude(now.Sub(b.Time))), cmp.Compare(uidA, uidB))
}

func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// compareRestarts orders the pod with more restarts first: of its containers, then of its sidecars.
func compareRestarts(a, b *corev1.Pod) int {
	containersA, sidecarsA := restarts(a)
	containersB, sidecarsB := restarts(b)
	return cmp.Or(cmp.Compare(containersB, containersA), cmp.Compare(sidecarsB, sidecarsA))
}

func restarts(p *corev1.Pod) (containers, sidecars int32) {
	for _, c := range p.Status.ContainerStatuses {
		containers = max(containers, c.RestartCount)
	}
	always := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		always[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	for _, c := range p.Status.InitContainerStatuses {
		if always[c.Name] {
			sidecars = max(sidecars, c.RestartCount)
		}
	}
	return containers, sidecars
}
