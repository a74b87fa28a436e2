package admission

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// FieldWarnings warns about the fields of a pod, or of a pod template, that the nodes do not support. It stands before the
// other mutators, which add fields that the client has not set.
type FieldWarnings struct {
	Of func(*corev1.PodSpec) []string // returns the warnings of a pod
}

// Name implements stage.Mutator.
func (FieldWarnings) Name() string { return "FieldWarnings" }

// Mutate implements stage.Mutator. It changes nothing. An update warns about new fields only.
func (w FieldWarnings) Mutate(_ context.Context, a *stage.Admission) error {
	if !slices.Contains([]string{"", "ephemeralcontainers", "resize"}, a.Subresource) {
		return nil
	}
	spec, path := podSpecOf(a.Object)
	if spec == nil {
		return nil
	}
	texts := w.Of(spec)
	var before []string
	if old, _ := podSpecOf(a.Old); old != nil && len(texts) > 0 {
		before = w.Of(old)
	}
	for _, text := range texts {
		if !slices.Contains(before, text) {
			a.Warn(path + text)
		}
	}
	return nil
}

// podSpecOf returns the pod spec of an object and the prefix of its path; nil when it has none.
func podSpecOf(obj objects.Object) (spec *corev1.PodSpec, path string) {
	const template = "spec.template."
	switch obj := obj.(type) {
	case *corev1.Pod:
		return &obj.Spec, ""
	case *corev1.PodTemplate:
		return &obj.Template.Spec, "template."
	case *corev1.ReplicationController:
		if obj.Spec.Template == nil {
			return nil, ""
		}
		return &obj.Spec.Template.Spec, template
	case *appsv1.Deployment:
		return &obj.Spec.Template.Spec, template
	case *appsv1.ReplicaSet:
		return &obj.Spec.Template.Spec, template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template.Spec, template
	case *appsv1.DaemonSet:
		return &obj.Spec.Template.Spec, template
	case *batchv1.Job:
		return &obj.Spec.Template.Spec, template
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template.Spec, "spec.jobTemplate." + template
	}
	return nil, ""
}
