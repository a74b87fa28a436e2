package autoscaling

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// The maximum windows of scaling rules, in seconds.
const (
	maxWindow = 3600
	maxPeriod = 1800
)

func validateHPA(h, old *hpa) field.ErrorList {
	s, at := &h.Spec, check.Spec
	errs := check.Meta(h, true, validation.NameIsDNSSubdomain)
	if old != nil {
		errs = check.MetaUpdate(h, old)
	}
	if s.MinReplicas != nil && *s.MinReplicas < 1 {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), *s.MinReplicas, "must be greater than or equal to 1"))
	}
	switch {
	case s.MaxReplicas == 0:
		errs = append(errs, field.Required(at.Child("maxReplicas"), "must be set and greater than 0"))
	case s.MaxReplicas < 0:
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to 1"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateReference(&s.ScaleTargetRef, at.Child("scaleTargetRef"))...)
	if old == nil || old.Spec.ScaleTargetRef.APIVersion != s.ScaleTargetRef.APIVersion || old.Spec.ScaleTargetRef.Kind != s.ScaleTargetRef.Kind {
		errs = append(errs, validateTargetVersion(&s.ScaleTargetRef, at.Child("scaleTargetRef", "apiVersion"))...)
	}
	for i := range s.Metrics {
		errs = append(errs, validateMetric(&s.Metrics[i], at.Child("metrics").Index(i))...)
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !slices.ContainsFunc(s.Metrics, fromOutside) {
		errs = append(errs, field.Forbidden(at.Child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if s.Behavior != nil {
		errs = append(errs, validateRules(s.Behavior.ScaleUp, at.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(s.Behavior.ScaleDown, at.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// fromOutside reports whether a metric is of type Object or External.
func fromOutside(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
}

func validateHPAStatus(h, old *hpa) field.ErrorList {
	errs := check.MetaUpdate(h, old)
	errs = append(errs, check.NonNegative(h.Status.CurrentReplicas, check.Status, "currentReplicas")...)
	return append(errs, check.NonNegative(h.Status.DesiredReplicas, check.Status, "desiredReplicas")...)
}

func validateReference(r *autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	return append(segment(r.Kind, "", at.Child("kind")), segment(r.Name, "", at.Child("name"))...)
}

// segment checks a value that becomes a path segment.
func segment(value, missing string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, missing)}
	}
	return check.Invalid(at, value, content.IsPathSegmentName(value))
}

// validateTargetVersion requires a group, except for ReplicationControllers.
func validateTargetVersion(r *autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, r.APIVersion, err.Error())}
	case gv.Group == "" && r.Kind != "ReplicationController":
		return field.ErrorList{field.Invalid(at, r.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

var metricTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
	autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
}

// validateMetric reports an unknown type twice, as Kubernetes does. It rejects a source that does not match the type only if
// there is more than one.
func validateMetric(m *autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	errs = append(errs, check.OneOf(m.Type, metricTypes, at, "type")...)
	wanted, present := "", []string{}
	if slices.Contains(metricTypes, m.Type) {
		wanted = strings.ToLower(string(m.Type[:1])) + string(m.Type[1:])
	}
	for _, source := range sources(m, at) {
		if source.check == nil {
			continue
		}
		if len(present) == 0 {
			errs = append(errs, source.check()...)
		}
		present = append(present, source.name)
	}
	if wanted == "" {
		errs = append(errs, check.OneOf(m.Type, metricTypes, at, "type")...)
	} else if !slices.Contains(present, wanted) {
		errs = append(errs, field.Required(at.Child(wanted), "must populate information for the given metric source"))
	}
	if len(present) == 1 {
		return errs
	}
	for _, name := range present {
		if name != wanted {
			errs = append(errs, field.Forbidden(at.Child(name), "must populate the given metric source only"))
		}
	}
	return errs
}

// source is a possible source of a metric; check is nil if the metric does not have it.
type source struct {
	name  string
	check func() field.ErrorList
}

func sources(m *autoscalingv2.MetricSpec, at *field.Path) []source {
	out := []source{{name: "object"}, {name: "external"}, {name: "pods"}, {name: "resource"}, {name: "containerResource"}}
	if s := m.Object; s != nil {
		out[0].check = func() field.ErrorList { return validateObject(s, at.Child("object")) }
	}
	if s := m.External; s != nil {
		out[1].check = func() field.ErrorList { return validateExternal(s, at.Child("external")) }
	}
	if s := m.Pods; s != nil {
		out[2].check = func() field.ErrorList {
			at := at.Child("pods")
			errs := validateNamed(&s.Metric, &s.Target, at)
			if s.Target.AverageValue == nil {
				errs = append(errs, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
			}
			return errs
		}
	}
	if s := m.Resource; s != nil {
		out[3].check = func() field.ErrorList { return validateResource(string(s.Name), &s.Target, at.Child("resource")) }
	}
	if s := m.ContainerResource; s != nil {
		out[4].check = func() field.ErrorList {
			at := at.Child("containerResource")
			errs := validateContainerResource(s, at)
			return append(errs, validateResourceTarget(&s.Target, at)...)
		}
	}
	return out
}

func validateNamed(m *autoscalingv2.MetricIdentifier, t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	return append(segment(m.Name, "must specify a metric name", at.Child("metric", "name")), validateTarget(t, at.Child("target"))...)
}

func validateObject(s *autoscalingv2.ObjectMetricSource, at *field.Path) field.ErrorList {
	errs := append(validateReference(&s.DescribedObject, at.Child("describedObject")), validateNamed(&s.Metric, &s.Target, at)...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternal(s *autoscalingv2.ExternalMetricSource, at *field.Path) field.ErrorList {
	errs := validateNamed(&s.Metric, &s.Target, at)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validateContainerResource(s *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, podspec.ContainerResource(s.Name, at.Child("name"))...)
	}
	if s.Container == "" {
		return append(errs, field.Required(at.Child("container"), "must specify a container"))
	}
	return append(errs, check.Label(s.Container, at, "container")...)
}

func validateResource(name string, t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateResourceTarget(t, at)...)
}

func validateResourceTarget(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := validateTarget(t, at.Child("target"))
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
		fallthrough
	default:
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("value"), *t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("averageValue"), *t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), *t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

func validateRules(r *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if window := r.StabilizationWindowSeconds; window != nil && *window < 0 {
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *window, "must be greater than or equal to zero"))
	} else if window != nil && *window > maxWindow {
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *window, fmt.Sprintf("must be less than or equal to %d", maxWindow)))
	}
	if r.SelectPolicy != nil {
		errs = append(errs, check.OneOf(*r.SelectPolicy, []autoscalingv2.ScalingPolicySelect{
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}, at, "selectPolicy")...)
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i := range r.Policies {
		errs = append(errs, validatePolicy(&r.Policies[i], at.Child("policies").Index(i))...)
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance.String(), "must be greater than or equal to 0"))
	}
	return errs
}

func validatePolicy(p *autoscalingv2.HPAScalingPolicy, at *field.Path) field.ErrorList {
	errs := check.OneOf(p.Type, []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}, at, "type")
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than zero"))
	}
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
	}
	if p.PeriodSeconds > maxPeriod {
		errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPeriod)))
	}
	return errs
}
