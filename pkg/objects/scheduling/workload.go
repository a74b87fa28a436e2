package scheduling

import (
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// Workloads returns the row of Workload, which Kubernetes serves with the feature gate GenericWorkload. Of g it reads the gates of fields.
func Workloads(g feature.Gates) objects.Def[*schedulingv1alpha2.Workload] {
	return objects.Def[*schedulingv1alpha2.Workload]{
		Names:         objects.Names{Group: "scheduling.k8s.io", Version: "v1alpha2", Kind: "Workload", Plural: "workloads"},
		ApplyPriority: 150,
		New:           func() *schedulingv1alpha2.Workload { return &schedulingv1alpha2.Workload{} },
		NewList:       func() runtime.Object { return &schedulingv1alpha2.WorkloadList{} },
		Prepare:       func(w, old *schedulingv1alpha2.Workload) { prepareWorkload(g, w, old) },
		Validate:      validateWorkload,
		Columns: []objects.Column[*schedulingv1alpha2.Workload]{
			objects.NameColumn[*schedulingv1alpha2.Workload](), objects.AgeColumn[*schedulingv1alpha2.Workload](),
		},
	}
}

// prepareWorkload drops the fields of feature gates that are off: claims, those of preemption by groups, and topology constraints, except those
// that a template has from when their gate was on.
func prepareWorkload(g feature.Gates, w, old *schedulingv1alpha2.Workload) {
	for i := range w.Spec.PodGroupTemplates {
		t := &w.Spec.PodGroupTemplates[i]
		had := old != nil && i < len(old.Spec.PodGroupTemplates) && old.Spec.PodGroupTemplates[i].SchedulingConstraints != nil
		if !g.TopologyAwareWorkloadScheduling && !had {
			t.SchedulingConstraints = nil
		}
		t.ResourceClaims, t.DisruptionMode, t.PriorityClassName, t.Priority = nil, nil, "", nil
	}
}

func validateWorkload(w, old *schedulingv1alpha2.Workload) field.ErrorList {
	if old != nil {
		errs := check.MetaUpdate(w, old)
		errs = append(errs, unchanged(w.Spec.ControllerRef, old.Spec.ControllerRef, check.Spec.Child("controllerRef"))...)
		return append(errs, unchanged(w.Spec.PodGroupTemplates, old.Spec.PodGroupTemplates, check.Spec.Child("podGroupTemplates"))...)
	}
	errs := check.Meta(w, true, validation.NameIsDNSSubdomain)
	if ref := w.Spec.ControllerRef; ref != nil {
		errs = append(errs, validateController(ref, check.Spec.Child("controllerRef"))...)
	}
	return append(errs, validateTemplates(w.Spec.PodGroupTemplates, check.Spec.Child("podGroupTemplates"))...)
}

func validateController(ref *schedulingv1alpha2.TypedLocalObjectReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.APIGroup != "" {
		errs = append(errs, check.Subdomain(ref.APIGroup, at, "apiGroup")...)
	}
	for _, f := range []struct{ name, value string }{{"kind", ref.Kind}, {"name", ref.Name}} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), ""))
			continue
		}
		errs = append(errs, check.Invalid(at.Child(f.name), f.value, check.PathSegment(f.value, false))...)
	}
	return errs
}

func validateTemplates(templates []schedulingv1alpha2.PodGroupTemplate, at *field.Path) field.ErrorList {
	switch {
	case len(templates) > schedulingv1alpha2.WorkloadMaxPodGroupTemplates:
		return field.ErrorList{field.TooMany(at, len(templates), schedulingv1alpha2.WorkloadMaxPodGroupTemplates)}
	case len(templates) == 0:
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	var seen check.Seen[string]
	for i := range templates {
		if seen.Again(templates[i].Name) {
			errs = append(errs, field.Duplicate(at.Index(i), templates[i]))
		}
	}
	for i := range templates {
		t := &templates[i]
		errs = append(errs, requiredLabel(t.Name, at.Index(i).Child("name"))...)
		errs = append(errs, validatePolicy(&t.SchedulingPolicy, at.Index(i).Child("schedulingPolicy"))...)
		errs = append(errs, validateConstraints(t.SchedulingConstraints, at.Index(i).Child("schedulingConstraints"))...)
	}
	return errs
}

// requiredLabel checks a field that must be a DNS label.
func requiredLabel(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Label(value, at)
}

// unchanged checks a field that an update may not change.
func unchanged(now, old any, at *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, nil, "field is immutable")}
}
