package controllers

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// active reports whether a pod runs or will run: it is not finished and not being deleted.
func active(p *corev1.Pod) bool { return !finished(p) && p.DeletionTimestamp == nil }

// finished reports whether a pod has ended for good.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// terminating reports whether a pod is on its way out, and still there.
func terminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && !finished(p) }

// ready returns whether a pod is Ready, and since when.
func ready(p *corev1.Pod) (since metav1.Time, ok bool) {
	c := podCondition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return metav1.Time{}, false
	}
	return c.LastTransitionTime, true
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// available returns whether a pod has been Ready for long enough, and if it is Ready but has not, how long that takes.
func available(p *corev1.Pod, minReady time.Duration, now time.Time) (ok bool, wait time.Duration) {
	since, isReady := ready(p)
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

// stamp returns t as it comes back from the server: in whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
