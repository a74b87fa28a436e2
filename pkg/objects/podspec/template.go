package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// PrepareTemplate converts a pod template from a client to the stored form.
func PrepareTemplate(t *corev1.PodTemplateSpec) {
	SyncServiceAccount(&t.Spec)
	DropGated(&t.Spec)
}

// ValidateTemplate checks a pod template. old is the template before an update, nil for a create.
func ValidateTemplate(t, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := check.Labels(t.Labels, at, "labels")
	if len(t.Annotations) > 0 {
		errs = append(errs, validation.ValidateAnnotations(t.Annotations, at.Child("annotations"))...)
		errs = append(errs, Annotations(t.Annotations, &t.Spec, at.Child("annotations"))...)
	}
	spec := at.Child("spec")
	o := Options{}
	if old != nil {
		o.Old = &old.Spec
	}
	errs = append(errs, Validate(&t.Spec, o, spec)...)
	errs = append(errs, AnnotationsMatch(t.Annotations, &t.Spec, spec)...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateReplicas checks the template of pods that must restart, as those of ReplicaSets, and that
// selector matches it.
func ValidateReplicas(t, old *corev1.PodTemplateSpec, selector labels.Selector, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, ValidateTemplate(t, old, at)...)
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	return errs
}

// ContainerNames formats the names of containers for a table.
func ContainerNames(s *corev1.PodSpec) string {
	names := make([]string, len(s.Containers))
	for i := range s.Containers {
		names[i] = s.Containers[i].Name
	}
	return strings.Join(names, ",")
}

// Images formats the images of containers for a table.
func Images(s *corev1.PodSpec) string {
	images := make([]string, len(s.Containers))
	for i := range s.Containers {
		images[i] = s.Containers[i].Image
	}
	return strings.Join(images, ",")
}
