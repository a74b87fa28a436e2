package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateDaemonSet(ds, old *appsv1.DaemonSet) field.ErrorList {
	if old == nil {
		return append(check.Meta(ds, true, validation.NameIsDNSSubdomain), validateDaemonSetSpec(&ds.Spec, nil, check.Spec)...)
	}
	errs := append(check.MetaUpdate(ds, old), check.Immutable(ds.Spec.Selector, old.Spec.Selector, check.Spec.Child("selector"))...)
	return append(errs, validateDaemonSetSpec(&ds.Spec, &old.Spec.Template, check.Spec)...)
}

func validateDaemonSetSpec(s *appsv1.DaemonSetSpec, old *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := check.Selector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, "empty selector is invalid for daemonset"))
	}
	spec := at.Child("template", "spec")
	errs = append(errs, podspec.ValidateTemplate(&s.Template, old, at.Child("template"))...)
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(spec.Child("restartPolicy"), s.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(spec.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported"))
	}
	errs = append(errs, check.NonNegative(s.MinReadySeconds, at, "minReadySeconds")...)
	errs = append(errs, validateDaemonStrategy(&s.UpdateStrategy, at.Child("updateStrategy"))...)
	return append(errs, check.NonNegative(value(s.RevisionHistoryLimit), at, "revisionHistoryLimit")...)
}

func validateDaemonStrategy(s *appsv1.DaemonSetUpdateStrategy, at *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			return field.ErrorList{field.Required(at.Child("rollingUpdate"), "")}
		}
		return validateDaemonRollingUpdate(s.RollingUpdate, at.Child("rollingUpdate"))
	}
	shown := shownStrategy{Type: appsv1.DeploymentStrategyType(s.Type)}
	if r := s.RollingUpdate; r != nil {
		shown.RollingUpdate = &shownRollingUpdate{MaxUnavailable: deref(r.MaxUnavailable), MaxSurge: deref(r.MaxSurge)}
	}
	return field.ErrorList{field.NotSupported(at, shown,
		[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
}

// validateDaemonRollingUpdate checks that exactly one of maxUnavailable and maxSurge is not zero.
func validateDaemonRollingUpdate(r *appsv1.RollingUpdateDaemonSet, at *field.Path) field.ErrorList {
	unavailable, surge := deref(r.MaxUnavailable), deref(r.MaxSurge)
	errs := check.NumberOrPercent(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, check.NumberOrPercent(surge, at.Child("maxSurge"))...)
	errs = append(errs, check.AtMostAll(unavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, check.AtMostAll(surge, at.Child("maxSurge"))...)
	switch hasUnavailable, hasSurge := check.Amount(unavailable) != 0, check.Amount(surge) != 0; {
	case hasUnavailable && hasSurge:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !hasUnavailable && !hasSurge:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateDaemonSetStatus(ds, old *appsv1.DaemonSet) field.ErrorList {
	s, at := &ds.Status, check.Status
	errs := check.MetaUpdate(ds, old)
	errs = append(errs, check.NonNegative(s.CurrentNumberScheduled, at, "currentNumberScheduled")...)
	errs = append(errs, check.NonNegative(s.NumberMisscheduled, at, "numberMisscheduled")...)
	errs = append(errs, check.NonNegative(s.DesiredNumberScheduled, at, "desiredNumberScheduled")...)
	errs = append(errs, check.NonNegative(s.NumberReady, at, "numberReady")...)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, at, "observedGeneration")...)
	errs = append(errs, check.NonNegative(s.UpdatedNumberScheduled, at, "updatedNumberScheduled")...)
	errs = append(errs, check.NonNegative(s.NumberAvailable, at, "numberAvailable")...)
	errs = append(errs, check.NonNegative(s.NumberUnavailable, at, "numberUnavailable")...)
	errs = append(errs, check.NonNegative(value(s.CollisionCount), at, "collisionCount")...)
	return append(errs, notDecremented(s.CollisionCount, old.Status.CollisionCount, at.Child("collisionCount"))...)
}
