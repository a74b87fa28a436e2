package scheduling

import (
	"time"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// maxTopologyConstraints bounds the topology constraints of a PodGroup.
const maxTopologyConstraints = 1

// PodGroups returns the row of PodGroup, which Kubernetes serves with the feature gate GenericWorkload. Of g it reads the gates of fields.
func PodGroups(g feature.Gates) objects.Def[*schedulingv1alpha2.PodGroup] {
	return objects.Def[*schedulingv1alpha2.PodGroup]{
		Names:         objects.Names{Group: "scheduling.k8s.io", Version: "v1alpha2", Kind: "PodGroup", Plural: "podgroups"},
		ApplyPriority: 140,
		New:           func() *schedulingv1alpha2.PodGroup { return &schedulingv1alpha2.PodGroup{} },
		NewList:       func() runtime.Object { return &schedulingv1alpha2.PodGroupList{} },
		Default:       defaultPodGroup,
		Prepare:       func(p, old *schedulingv1alpha2.PodGroup) { preparePodGroup(g, p, old) },
		Validate:      func(p, old *schedulingv1alpha2.PodGroup) field.ErrorList { return validatePodGroup(g, p, old) },
		Columns: []objects.Column[*schedulingv1alpha2.PodGroup]{
			objects.NameColumn[*schedulingv1alpha2.PodGroup](),
			{Name: "Policy", Description: schedulingv1alpha2.PodGroupSpec{}.SwaggerDoc()["schedulingPolicy"],
				Cell: func(p *schedulingv1alpha2.PodGroup, _ time.Time) any { return policyName(p) }},
			{Name: "Workload", Description: "Name of the referenced Workload object",
				Cell: func(p *schedulingv1alpha2.PodGroup, _ time.Time) any { return workloadName(p) }},
			{Name: "Status", Description: "Status of the PodGroup",
				Cell: func(p *schedulingv1alpha2.PodGroup, _ time.Time) any { return groupStatus(p) }},
			objects.AgeColumn[*schedulingv1alpha2.PodGroup](),
		},
		Reset: []string{"status"},
		Status: &objects.Status[*schedulingv1alpha2.PodGroup]{
			Prepare:  preparePodGroupStatus,
			Validate: validatePodGroupStatus,
			Reset:    []string{"metadata", "spec"},
		},
	}
}

func policyName(p *schedulingv1alpha2.PodGroup) string {
	if p.Spec.SchedulingPolicy.Gang != nil {
		return "Gang"
	}
	return "Basic"
}

func workloadName(p *schedulingv1alpha2.PodGroup) string {
	if ref := p.Spec.PodGroupTemplateRef; ref != nil && ref.Workload != nil {
		return ref.Workload.WorkloadName
	}
	return "<none>"
}

func groupStatus(p *schedulingv1alpha2.PodGroup) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, schedulingv1alpha2.DisruptionTarget); c != nil {
		return c.Reason
	}
	switch c := meta.FindStatusCondition(p.Status.Conditions, schedulingv1alpha2.PodGroupScheduled); {
	case c == nil:
		return "Pending"
	case c.Status == metav1.ConditionTrue:
		return "Scheduled"
	}
	return "Unschedulable"
}

func defaultPodGroup(p *schedulingv1alpha2.PodGroup) {
	if p.Spec.DisruptionMode == nil {
		p.Spec.DisruptionMode = new(schedulingv1alpha2.DisruptionModePod)
	}
}

// preparePodGroup drops the fields of feature gates that are off, except constraints that the PodGroup has from when their gate was on.
// Kubernetes drops the disruption mode, too, and then sets its default when it reads the object.
func preparePodGroup(g feature.Gates, p, old *schedulingv1alpha2.PodGroup) {
	p.Status = schedulingv1alpha2.PodGroupStatus{}
	if old != nil {
		p.Status = old.Status
	}
	if !g.TopologyAwareWorkloadScheduling && (old == nil || old.Spec.SchedulingConstraints == nil) {
		p.Spec.SchedulingConstraints = nil
	}
	p.Spec.ResourceClaims, p.Spec.PriorityClassName, p.Spec.Priority = nil, "", nil
	p.Spec.DisruptionMode = new(schedulingv1alpha2.DisruptionModePod)
}

func preparePodGroupStatus(p, old *schedulingv1alpha2.PodGroup) {
	p.Spec = old.Spec
	metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
	p.Status.ResourceClaimStatuses = nil
}

func validatePodGroup(g feature.Gates, p, old *schedulingv1alpha2.PodGroup) field.ErrorList {
	s, at := &p.Spec, check.Spec
	if old != nil {
		errs := check.MetaUpdate(p, old)
		errs = append(errs, unchanged(s.PodGroupTemplateRef, old.Spec.PodGroupTemplateRef, at.Child("podGroupTemplateRef"))...)
		errs = append(errs, unchanged(s.SchedulingPolicy, old.Spec.SchedulingPolicy, at.Child("schedulingPolicy"))...)
		return append(errs, validateNewConstraints(g, s.SchedulingConstraints, old.Spec.SchedulingConstraints, at.Child("schedulingConstraints"))...)
	}
	errs := check.Meta(p, true, validation.NameIsDNSSubdomain)
	errs = append(errs, validateTemplateRef(s.PodGroupTemplateRef, at.Child("podGroupTemplateRef"))...)
	errs = append(errs, validatePolicy(&s.SchedulingPolicy, at.Child("schedulingPolicy"))...)
	return append(errs, validateConstraints(s.SchedulingConstraints, at.Child("schedulingConstraints"))...)
}

// validateNewConstraints checks an update of constraints. While their gate is off, those that there are may only be removed.
func validateNewConstraints(g feature.Gates, now, old *schedulingv1alpha2.PodGroupSchedulingConstraints, at *field.Path) field.ErrorList {
	switch {
	case g.TopologyAwareWorkloadScheduling:
		return unchanged(now, old, at)
	case now != nil && !equality.Semantic.DeepEqual(now, old):
		return field.ErrorList{field.Forbidden(at, "")}
	}
	return nil
}

// validateConstraints checks the constraints of a new PodGroup or template.
func validateConstraints(c *schedulingv1alpha2.PodGroupSchedulingConstraints, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	at = at.Child("topology")
	if len(c.Topology) > maxTopologyConstraints {
		return field.ErrorList{field.TooMany(at, len(c.Topology), maxTopologyConstraints)}
	}
	var errs field.ErrorList
	for i, t := range c.Topology {
		if t.Key == "" {
			errs = append(errs, field.Required(at.Index(i).Child("key"), ""))
			continue
		}
		errs = append(errs, check.Qualified(t.Key, at.Index(i), "key")...)
	}
	return errs
}

func validateTemplateRef(ref *schedulingv1alpha2.PodGroupTemplateReference, at *field.Path) field.ErrorList {
	switch {
	case ref == nil:
		return nil
	case ref.Workload == nil:
		return field.ErrorList{field.Invalid(at, "", "must specify one of: `workload`")}
	}
	var errs field.ErrorList
	at = at.Child("workload")
	if name := ref.Workload.WorkloadName; name == "" {
		errs = append(errs, field.Required(at.Child("workloadName"), ""))
	} else {
		errs = append(errs, check.Subdomain(name, at, "workloadName")...)
	}
	return append(errs, requiredLabel(ref.Workload.PodGroupTemplateName, at.Child("podGroupTemplateName"))...)
}

func validatePolicy(p *schedulingv1alpha2.PodGroupSchedulingPolicy, at *field.Path) field.ErrorList {
	switch {
	case p.Basic == nil && p.Gang == nil:
		return field.ErrorList{field.Invalid(at, "", "must specify one of: `basic`, `gang`")}
	case p.Gang == nil:
		return nil
	}
	var errs field.ErrorList
	if p.Basic != nil {
		errs = append(errs, field.Invalid(at, "{basic, gang}", "must specify exactly one of: `basic`, `gang`"))
	}
	switch at := at.Child("gang", "minCount"); {
	case p.Gang.MinCount == 0:
		errs = append(errs, field.Required(at, ""))
	case p.Gang.MinCount < 0:
		errs = append(errs, field.Invalid(at, p.Gang.MinCount, "must be greater than or equal to 1"))
	}
	return errs
}

func validatePodGroupStatus(p, old *schedulingv1alpha2.PodGroup) field.ErrorList {
	return append(check.MetaUpdate(p, old), metav1validation.ValidateConditions(p.Status.Conditions, check.Status.Child("conditions"))...)
}
