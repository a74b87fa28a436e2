package apiserver

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// fieldWarnings tells whoever writes a pod, or a template of one, what the nodes will not do of it. It stands before the
// mutators, which add to pods what nobody asked for.
type fieldWarnings struct {
	of func(*corev1.PodSpec) []string
}

// Name implements stage.Mutator.
func (fieldWarnings) Name() string { return "FieldWarnings" }

// Mutate implements stage.Mutator. It changes nothing. Of an update only what is new is told.
func (w fieldWarnings) Mutate(_ context.Context, a *stage.Admission) error {
	if !slices.Contains([]string{"", "ephemeralcontainers", "resize"}, a.Subresource) {
		return nil
	}
	spec, path := podSpec(a.Object)
	if spec == nil {
		return nil
	}
	texts := w.of(spec)
	var before []string
	if old, _ := podSpec(a.Old); old != nil && len(texts) > 0 {
		before = w.of(old)
	}
	for _, text := range texts {
		if !slices.Contains(before, text) {
			a.Warn(path + text)
		}
	}
	return nil
}

// podSpec returns the pod spec that an object has, and what stands before its path; nil when it has none.
func podSpec(obj objects.Object) (spec *corev1.PodSpec, path string) {
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
