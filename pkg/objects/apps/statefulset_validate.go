package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

func validateStatefulSet(set, old *appsv1.StatefulSet) field.ErrorList {
	if old == nil {
		s := &set.Spec
		errs := append(check.Meta(set, true, validation.NameIsDNSLabel), validateStatefulParts(s, check.Spec)...)
		errs = append(errs, validateClaimTemplates(s.VolumeClaimTemplates, check.Spec.Child("volumeClaimTemplates"))...)
		errs = append(errs, validateStatefulCounts(s, check.Spec)...)
		if s.ServiceName != "" {
			errs = append(errs, check.Label(s.ServiceName, check.Spec, "serviceName")...)
		}
		return append(errs, validateStatefulPods(s, nil, true, check.Spec)...)
	}
	errs := append(check.MetaUpdate(set, old), validateStatefulUpdate(&set.Spec, &old.Spec)...)
	now := set.Spec // a shallow copy: only whole fields are replaced
	now.Replicas, now.Template, now.UpdateStrategy = old.Spec.Replicas, old.Spec.Template, old.Spec.UpdateStrategy
	now.MinReadySeconds, now.Ordinals, now.RevisionHistoryLimit = old.Spec.MinReadySeconds, old.Spec.Ordinals, old.Spec.RevisionHistoryLimit
	now.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if !equality.Semantic.DeepEqual(&now, &old.Spec) {
		errs = append(errs, field.Forbidden(check.Spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "+
			"'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
	}
	return errs
}

// validateStatefulUpdate skips immutable fields: the service name and the claim templates. A set whose
// old spec is invalid may keep its template.
func validateStatefulUpdate(s, old *appsv1.StatefulSetSpec) field.ErrorList {
	validate := func(s *appsv1.StatefulSetSpec, template bool) field.ErrorList {
		errs := append(validateStatefulParts(s, check.Spec), validateStatefulCounts(s, check.Spec)...)
		return append(errs, validateStatefulPods(s, &old.Template, template, check.Spec)...)
	}
	return validate(s, validate(old, true) == nil)
}

func validateStatefulParts(s *appsv1.StatefulSetSpec, at *field.Path) field.ErrorList {
	errs := validateManagement(s.PodManagementPolicy, at.Child("podManagementPolicy"))
	errs = append(errs, validateStatefulStrategy(&s.UpdateStrategy, at.Child("updateStrategy"))...)
	return append(errs, validateRetention(s.PersistentVolumeClaimRetentionPolicy, at.Child("persistentVolumeClaimRetentionPolicy"))...)
}

func validateClaimTemplates(claims []corev1.PersistentVolumeClaim, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range claims {
		errs = append(errs, volume.ValidateClaimSpec(&claims[i].Spec, at.Index(i).Child("spec"))...)
	}
	return errs
}

func validateStatefulCounts(s *appsv1.StatefulSetSpec, at *field.Path) field.ErrorList {
	errs := check.NonNegative(value(s.Replicas), at, "replicas")
	errs = append(errs, check.NonNegative(s.MinReadySeconds, at, "minReadySeconds")...)
	if s.Ordinals != nil {
		errs = append(errs, check.NonNegative(s.Ordinals.Start, at, "ordinals.start")...)
	}
	return errs
}

// validateStatefulPods checks the selector and the template, without the pod spec if template is false.
func validateStatefulPods(s *appsv1.StatefulSetSpec, old *corev1.PodTemplateSpec, template bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Selector == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	} else {
		errs = append(errs, check.Selector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
		if len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, "empty selector is invalid for statefulset"))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, ""))
	} else {
		errs = append(errs, validateStatefulTemplate(s, old, selector, template, at.Child("template"))...)
	}
	spec := at.Child("template", "spec")
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), s.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	return errs
}

func validateManagement(p appsv1.PodManagementPolicyType, at *field.Path) field.ErrorList {
	switch p {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
		return nil
	case "":
		return field.ErrorList{field.Required(at, "")}
	}
	return field.ErrorList{field.Invalid(at, p, fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement))}
}

// shownStatefulStrategy formats a strategy for an error message, with Go's field names.
type shownStatefulStrategy struct {
	Type          appsv1.StatefulSetUpdateStrategyType
	RollingUpdate *shownPartition
}

type shownPartition struct {
	Partition      int32
	MaxUnavailable *intstr.IntOrString
}

func showPartition(r *appsv1.RollingUpdateStatefulSetStrategy) *shownPartition {
	if r == nil {
		return nil
	}
	return &shownPartition{value(r.Partition), r.MaxUnavailable}
}

func validateStatefulStrategy(s *appsv1.StatefulSetUpdateStrategy, at *field.Path) field.ErrorList {
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(at, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(at.Child("rollingUpdate"), showPartition(s.RollingUpdate),
			fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		return validatePartition(s.RollingUpdate, at.Child("rollingUpdate"))
	}
	return field.ErrorList{field.Invalid(at, shownStatefulStrategy{s.Type, showPartition(s.RollingUpdate)},
		fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
}

func validatePartition(r *appsv1.RollingUpdateStatefulSetStrategy, at *field.Path) field.ErrorList {
	errs := check.NonNegative(value(r.Partition), at, "partition")
	if r.MaxUnavailable == nil {
		return errs
	}
	errs = append(errs, check.NumberOrPercent(*r.MaxUnavailable, at.Child("maxUnavailable"))...)
	if check.Amount(*r.MaxUnavailable) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), *r.MaxUnavailable, "cannot be 0"))
	}
	return append(errs, check.AtMostAll(*r.MaxUnavailable, at.Child("maxUnavailable"))...)
}

func validateRetention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	allowed := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	errs := check.OneOf(p.WhenDeleted, allowed, at, "whenDeleted")
	return append(errs, check.OneOf(p.WhenScaled, allowed, at, "whenScaled")...)
}

// validateStatefulTemplate checks a pod as the controller creates it: with the volumes of its claims and its hostname.
// Errors of labels and annotations appear twice, as in Kubernetes.
func validateStatefulTemplate(s *appsv1.StatefulSetSpec, old *corev1.PodTemplateSpec, selector labels.Selector, whole bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	t := s.Template
	t.Spec.Volumes = withClaims(s.VolumeClaimTemplates, t.Spec.Volumes)
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	if whole {
		errs = append(errs, podspec.ValidateTemplate(&t, old, at)...)
	}
	errs = append(errs, check.Labels(t.Labels, at, "labels")...)
	if len(t.Annotations) > 0 {
		errs = append(errs, validation.ValidateAnnotations(t.Annotations, at.Child("annotations"))...)
		errs = append(errs, podspec.Annotations(t.Annotations, &t.Spec, at.Child("annotations"))...)
	}
	return errs
}

// withClaims returns a volume for each claim, and the pod's other volumes.
func withClaims(claims []corev1.PersistentVolumeClaim, have []corev1.Volume) []corev1.Volume {
	if len(claims) == 0 {
		return have
	}
	out := make([]corev1.Volume, 0, len(claims)+len(have))
	claimed := map[string]bool{}
	for i := range claims {
		name := claims[i].Name
		if claimed[name] {
			continue
		}
		claimed[name] = true
		v := corev1.Volume{Name: name}
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		out = append(out, v)
	}
	for _, v := range have {
		if !claimed[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

func validateStatefulSetStatus(set, old *appsv1.StatefulSet) field.ErrorList {
	const more = "cannot be greater than status.replicas"
	s, at := &set.Status, check.Status
	errs := check.NonNegative(s.Replicas, at, "replicas")
	errs = append(errs, check.NonNegative(s.ReadyReplicas, at, "readyReplicas")...)
	errs = append(errs, check.NonNegative(s.CurrentReplicas, at, "currentReplicas")...)
	errs = append(errs, check.NonNegative(s.UpdatedReplicas, at, "updatedReplicas")...)
	errs = append(errs, check.NonNegative(s.AvailableReplicas, at, "availableReplicas")...)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, at, "observedGeneration")...)
	errs = append(errs, check.NonNegative(value(s.CollisionCount), at, "collisionCount")...)
	for _, part := range []struct {
		name  string
		count int32
	}{{"readyReplicas", s.ReadyReplicas}, {"currentReplicas", s.CurrentReplicas}, {"updatedReplicas", s.UpdatedReplicas}, {"availableReplicas", s.AvailableReplicas}} {
		if part.count > s.Replicas {
			errs = append(errs, field.Invalid(at.Child(part.name), part.count, more))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(at.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than status.readyReplicas"))
	}
	errs = append(errs, check.MetaUpdate(set, old)...)
	return append(errs, notDecremented(s.CollisionCount, old.Status.CollisionCount, at.Child("collisionCount"))...)
}
