package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	unsatisfiable = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	inclusion     = []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
)

func validateSpread(list []corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	at = at.Child("topologySpreadConstraints")
	var errs field.ErrorList
	type pair struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	left := make(map[pair]int, len(list)) // number of remaining ones
	for i := range list {
		left[pair{list[i].TopologyKey, list[i].WhenUnsatisfiable}]++
	}
	for i := range list {
		c, idx := &list[i], at.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(idx.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(idx.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, check.OneOf(c.WhenUnsatisfiable, unsatisfiable, idx, "whenUnsatisfiable")...)
		this := pair{c.TopologyKey, c.WhenUnsatisfiable}
		if left[this]--; left[this] > 0 {
			errs = append(errs, field.Duplicate(idx.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		errs = append(errs, minDomains(c, idx.Child("minDomains"))...)
		if c.NodeAffinityPolicy != nil {
			errs = append(errs, check.OneOf(*c.NodeAffinityPolicy, inclusion, idx, "nodeAffinityPolicy")...)
		}
		if c.NodeTaintsPolicy != nil {
			errs = append(errs, check.OneOf(*c.NodeTaintsPolicy, inclusion, idx, "nodeTaintsPolicy")...)
		}
		errs = append(errs, spreadKeys(c, idx)...)
		errs = append(errs, selector(c.LabelSelector, idx.Child("labelSelector"))...)
	}
	return errs
}

func minDomains(c *corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	if c.MinDomains == nil {
		return nil
	}
	var errs field.ErrorList
	if *c.MinDomains <= 0 {
		errs = append(errs, field.Invalid(at, c.MinDomains, "must be greater than zero"))
	}
	if c.WhenUnsatisfiable != corev1.DoNotSchedule {
		errs = append(errs, field.Invalid(at, c.MinDomains,
			fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
	}
	return errs
}

// spreadKeys checks matchLabelKeys. They are already merged into the selector.
func spreadKeys(c *corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	t := corev1.PodAffinityTerm{MatchLabelKeys: c.MatchLabelKeys, LabelSelector: c.LabelSelector}
	return labelKeys(&t, at)
}
