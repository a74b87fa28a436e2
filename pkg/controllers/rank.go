package controllers

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

// rankForDeletion sorts pods so that the one to delete first comes first: those that have come least far, then those
// that cost the least, then those with most company on their node, then the youngest (by orders of magnitude of age, so
// that chance decides among pods of about one age). company says how many related pods run on each node.
func rankForDeletion(pods []*corev1.Pod, company map[string]int, now time.Time) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(phaseOrder[a.Status.Phase], phaseOrder[b.Status.Phase]),
			falseFirst(isReady(a), isReady(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(company[b.Spec.NodeName], company[a.Spec.NodeName]),
			readyLonger(a, b, now),
			compareRestarts(a, b),
			younger(a.CreationTimestamp, b.CreationTimestamp, a.UID, b.UID, now),
		)
	})
}

var phaseOrder = map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}

func isReady(p *corev1.Pod) bool {
	_, ok := ready(p)
	return ok
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// deletionCost is what the user says it costs to lose a pod: 0 when nothing sensible is said.
func deletionCost(p *corev1.Pod) int32 {
	value := p.Annotations[corev1.PodDeletionCost]
	if value == "" || value[0] != '-' && (value[0] < '1' || value[0] > '9') {
		return 0 // 0, or not in the one form that a number has
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func readyLonger(a, b *corev1.Pod, now time.Time) int {
	sinceA, okA := ready(a)
	sinceB, okB := ready(b)
	if !okA || !okB {
		return 0
	}
	return younger(sinceA, sinceB, a.UID, b.UID, now)
}

// younger puts the later of two times first. Ages of one power of two count as the same, and then the UIDs decide; an
// unknown time is the latest.
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

// compareRestarts puts the pod with more restarts first: of its containers, then of its sidecars.
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
