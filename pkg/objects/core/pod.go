package core

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Pods is the row of Pod.
var Pods = objects.Def[*corev1.Pod]{
	Names:     objects.Names{Version: "v1", Kind: "Pod", Plural: "pods", Short: []string{"po"}, Categories: []string{"all"}},
	New:       func() *corev1.Pod { return &corev1.Pod{} },
	NewList:   func() runtime.Object { return &corev1.PodList{} },
	Default:   defaultPod,
	Prepare:   preparePod,
	Validate:  validatePod,
	Warnings:  podWarnings,
	Columns:   podColumns,
	Completed: podCompleted,
	Selectable: map[string]func(*corev1.Pod) string{
		"spec.nodeName":            func(p *corev1.Pod) string { return p.Spec.NodeName },
		"spec.restartPolicy":       func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
		"spec.schedulerName":       func(p *corev1.Pod) string { return p.Spec.SchedulerName },
		"spec.serviceAccountName":  func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
		"spec.hostNetwork":         func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
		"status.phase":             func(p *corev1.Pod) string { return string(p.Status.Phase) },
		"status.podIP":             podIP,
		"status.podIPs":            func(*corev1.Pod) string { return "" }, // a supported selector that matches nothing
		"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.Pod]{
		Prepare:  preparePodStatus,
		Validate: validatePodStatus,
		Warnings: podStatusWarnings,
		Reset:    []string{"spec", "metadata.deletionTimestamp", "metadata.ownerReferences"},
	},
	Parts: map[string]objects.Status[*corev1.Pod]{
		"ephemeralcontainers": {Prepare: prepareEphemeral, Validate: validateEphemeral},
		"resize":              {Prepare: prepareResize, Validate: validateResize},
	},
	Connects:       []string{"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"},
	Grace:          podGrace,
	ReturnsDeleted: true,
}

func podIP(p *corev1.Pod) string {
	if len(p.Status.PodIPs) > 0 {
		return p.Status.PodIPs[0].IP
	}
	return p.Status.PodIP
}

// podGrace returns the grace period of a pod's deletion in seconds: zero for a pod that is not bound, or has terminated.
func podGrace(p *corev1.Pod, requested *int64) int64 {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	grace := int64(0)
	if requested != nil {
		grace = *requested
	} else if p.Spec.TerminationGracePeriodSeconds != nil {
		grace = *p.Spec.TerminationGracePeriodSeconds
	}
	if grace < 0 {
		return 1
	}
	return grace
}
