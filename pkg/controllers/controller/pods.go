package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsPodActive reports whether a pod runs or may still run: it is neither terminal nor being deleted.
func IsPodActive(p *corev1.Pod) bool { return !IsPodTerminal(p) && p.DeletionTimestamp == nil }

// IsPodTerminal reports whether a pod has the phase Succeeded or Failed.
func IsPodTerminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// IsPodTerminating reports whether a pod is being deleted and is not terminal yet.
func IsPodTerminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && !IsPodTerminal(p) }

// PodReady returns whether a pod is Ready, and since when. since is zero when the condition has no transition time.
func PodReady(p *corev1.Pod) (since metav1.Time, ok bool) {
	c := PodCondition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return metav1.Time{}, false
	}
	return c.LastTransitionTime, true
}

// IsPodReady reports whether a pod has the condition Ready.
func IsPodReady(p *corev1.Pod) bool {
	_, ok := PodReady(p)
	return ok
}

// PodCondition returns the condition of a type, nil if the pod has none. It points into the pod.
func PodCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// PodAvailable returns whether a pod has been Ready for minReady. For a pod that is Ready but not available yet, wait is the
// time until it is.
func PodAvailable(p *corev1.Pod, minReady time.Duration, now time.Time) (ok bool, wait time.Duration) {
	since, isReady := PodReady(p)
	switch {
	case !isReady:
		return false, 0
	case minReady == 0:
		return true, 0
	case since.IsZero():
		return false, 0
	}
	wait = since.Add(minReady).Sub(now)
	return wait <= 0, max(wait, 0)
}
