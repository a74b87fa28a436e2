package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	if old == nil {
		return append(check.Meta(d, true, validation.NameIsDNSSubdomain), validateDeploymentSpec(&d.Spec, nil, check.Spec)...)
	}
	errs := append(check.MetaUpdate(d, old), validateDeploymentSpec(&d.Spec, &old.Spec.Template, check.Spec)...)
	return append(errs, check.Immutable(d.Spec.Selector, old.Spec.Selector, check.Spec.Child("selector"))...)
}

func validateDeploymentSpec(s *appsv1.DeploymentSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := check.NonNegative(value(s.Replicas), at, "replicas")
	errs = append(errs, validateSelected(s.Selector, &s.Template, old, at)...)
	errs = append(errs, validateStrategy(&s.Strategy, at.Child("strategy"))...)
	errs = append(errs, check.NonNegative(s.MinReadySeconds, at, "minReadySeconds")...)
	if s.RevisionHistoryLimit != nil {
		errs = append(errs, check.NonNegative(*s.RevisionHistoryLimit, at, "revisionHistoryLimit")...)
	}
	if deadline := s.ProgressDeadlineSeconds; deadline != nil {
		errs = append(errs, check.NonNegative(*deadline, at, "progressDeadlineSeconds")...)
		if *deadline <= s.MinReadySeconds {
			errs = append(errs, field.Invalid(at.Child("progressDeadlineSeconds"), *deadline, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

// validateSelected checks a selector, the pod template, and that the selector matches it.
func validateSelected(s *metav1.LabelSelector, t, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	} else {
		errs = append(errs, check.Selector(s, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at.Child("selector"), s, "empty selector is invalid for deployment"))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return append(errs, field.Invalid(at.Child("selector"), s, "invalid label selector"))
	}
	return append(errs, podspec.ValidateReplicas(t, old, selector, at.Child("template"))...)
}

// shownStrategy formats a strategy for the error of an unknown type, with Go's field names.
type shownStrategy struct {
	Type          appsv1.DeploymentStrategyType
	RollingUpdate *shownRollingUpdate
}

type shownRollingUpdate struct{ MaxUnavailable, MaxSurge intstr.IntOrString }

func validateStrategy(s *appsv1.DeploymentStrategy, at *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(at.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(at.Child("rollingUpdate"), "this should be defaulted and never be nil")}
		}
		return validateRollingUpdate(s.RollingUpdate, at.Child("rollingUpdate"))
	}
	shown := shownStrategy{Type: s.Type}
	if r := s.RollingUpdate; r != nil {
		shown.RollingUpdate = &shownRollingUpdate{MaxUnavailable: deref(r.MaxUnavailable), MaxSurge: deref(r.MaxSurge)}
	}
	return field.ErrorList{field.NotSupported(at, shown,
		[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
}

func validateRollingUpdate(r *appsv1.RollingUpdateDeployment, at *field.Path) field.ErrorList {
	unavailable, surge := deref(r.MaxUnavailable), deref(r.MaxSurge)
	errs := check.NumberOrPercent(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, check.NumberOrPercent(surge, at.Child("maxSurge"))...)
	if check.Amount(unavailable) == 0 && check.Amount(surge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, check.AtMostAll(unavailable, at.Child("maxUnavailable"))...)
}

func deref(v *intstr.IntOrString) intstr.IntOrString {
	if v == nil {
		return intstr.IntOrString{}
	}
	return *v
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	if old == nil {
		return append(check.Meta(rs, true, validation.NameIsDNSSubdomain), validateReplicaSetSpec(&rs.Spec, nil, check.Spec)...)
	}
	errs := append(check.MetaUpdate(rs, old), validateReplicaSetSpec(&rs.Spec, &old.Spec.Template, check.Spec)...)
	return append(errs, check.Immutable(rs.Spec.Selector, old.Spec.Selector, check.Spec.Child("selector"))...)
}

func validateReplicaSetSpec(s *appsv1.ReplicaSetSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := check.NonNegative(value(s.Replicas), at, "replicas")
	errs = append(errs, check.NonNegative(s.MinReadySeconds, at, "minReadySeconds")...)
	return append(errs, validateSelected(s.Selector, &s.Template, old, at)...)
}
