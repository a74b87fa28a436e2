package controller

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RankActive sorts active pods so that those to delete first come first, in the order of Jobs: not bound to a node before
// bound, Pending before Unknown before Running, not ready before ready, ready for a shorter time, more restarts, younger.
// Unlike RankForDeletion it ignores the pod-deletion-cost and compares exact times.
func RankActive(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]),
			falseFirst(IsPodReady(a), IsPodReady(b)),
			readyLater(a, b),
			compareRestarts(a, b),
			laterFirst(a.CreationTimestamp, b.CreationTimestamp),
		)
	})
}

func readyLater(a, b *corev1.Pod) int {
	sinceA, okA := PodReady(a)
	sinceB, okB := PodReady(b)
	if !okA || !okB {
		return 0
	}
	return laterFirst(sinceA, sinceB)
}

// laterFirst orders the later of two times first, and a zero time before any other.
func laterFirst(a, b metav1.Time) int {
	if a.IsZero() || b.IsZero() {
		return falseFirst(!a.IsZero(), !b.IsZero())
	}
	return b.Compare(a.Time)
}
