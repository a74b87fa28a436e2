package podspec

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Of returns the pod spec of an object and the prefix of its path, and whether objects of its kind have one. The spec is nil where a
// ReplicationController has no template.
func Of(obj any) (spec *corev1.PodSpec, path string, has bool) {
	const template = "spec.template."
	switch obj := obj.(type) {
	case *corev1.Pod:
		return &obj.Spec, "", true
	case *corev1.PodTemplate:
		return &obj.Template.Spec, "template.", true
	case *corev1.ReplicationController:
		if obj.Spec.Template == nil {
			return nil, template, true
		}
		return &obj.Spec.Template.Spec, template, true
	case *appsv1.Deployment:
		return &obj.Spec.Template.Spec, template, true
	case *appsv1.ReplicaSet:
		return &obj.Spec.Template.Spec, template, true
	case *appsv1.StatefulSet:
		return &obj.Spec.Template.Spec, template, true
	case *appsv1.DaemonSet:
		return &obj.Spec.Template.Spec, template, true
	case *batchv1.Job:
		return &obj.Spec.Template.Spec, template, true
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template.Spec, "spec.jobTemplate." + template, true
	}
	return nil, "", false
}
