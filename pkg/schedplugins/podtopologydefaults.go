package schedplugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// systemConstraints are the default constraints of a configuration that names none.
func systemConstraints() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
	}
}

func defaultSpread() configv1.PodTopologySpreadArgs {
	return configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}
}

func newPodTopologySpread(args configv1.PodTopologySpreadArgs, h framework.Handle) (framework.Plugin, error) {
	if err := validateSpread(&args).ToAggregate(); err != nil {
		return nil, err
	}
	p := podTopologySpread{
		handle: h, defaults: args.DefaultConstraints,
		skewed: framework.NewStatus(framework.Unschedulable, reasonSkew).WithPlugin("PodTopologySpread"),
		noKey:  framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonNoKey).WithPlugin("PodTopologySpread"),
	}
	if args.DefaultingType == configv1.SystemDefaulting {
		p.defaults, p.partial = systemConstraints(), true
	}
	if len(p.defaults) > 0 {
		api, ok := h.(scheduler.APIHandle)
		if !ok {
			return nil, fmt.Errorf("default constraints need the selectors of Services and controllers, which %T does not have", h)
		}
		p.selectors = api.Selectors()
	}
	return p, nil
}

func validateSpread(args *configv1.PodTopologySpreadArgs) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("defaultingType")
	switch {
	case args.DefaultingType != configv1.SystemDefaulting && args.DefaultingType != configv1.ListDefaulting:
		errs = append(errs, field.NotSupported(at, args.DefaultingType, []configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}))
	case args.DefaultingType == configv1.SystemDefaulting && len(args.DefaultConstraints) > 0:
		errs = append(errs, field.Invalid(at, args.DefaultingType, "when .defaultConstraints are not empty"))
	}
	type id struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	seen := map[id]bool{}
	for i, c := range args.DefaultConstraints {
		at := field.NewPath("defaultConstraints").Index(i)
		errs = append(errs, validateDefaultConstraint(&c, at)...)
		own := id{c.TopologyKey, c.WhenUnsatisfiable}
		if seen[own] {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		seen[own] = true
	}
	return errs
}

func validateDefaultConstraint(c *corev1.TopologySpreadConstraint, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if c.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	} else {
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
	}
	if c.WhenUnsatisfiable == "" {
		errs = append(errs, field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
	} else {
		actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
		errs = append(errs, check.OneOf(c.WhenUnsatisfiable, actions, at, "whenUnsatisfiable")...)
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	return errs
}

// isPartial reports whether the constraints of a pod are system defaults: a node that lacks one of the keys is then scored by the other.
func (p podTopologySpread) isPartial(pod *corev1.Pod) bool {
	return p.partial && len(pod.Spec.TopologySpreadConstraints) == 0
}

// constraintsOf returns the constraints of a pod with an action: its own or, if it has none with any action, the default ones, which select what
// the pod's Services and its controller select.
func (p podTopologySpread) constraintsOf(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	if own := pod.Spec.TopologySpreadConstraints; len(own) > 0 {
		return parseConstraints(own, pod, action)
	}
	out, err := parseConstraints(p.defaults, pod, action)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	selector := p.selectors.Of(pod)
	if selector.Empty() {
		return nil, nil
	}
	for i := range out {
		out[i].selector = selector
	}
	return out, nil
}

func parseConstraints(all []corev1.TopologySpreadConstraint, pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for _, c := range all {
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		for _, key := range c.MatchLabelKeys {
			if value, ok := pod.Labels[key]; ok {
				r, err := labels.NewRequirement(key, "=", []string{value})
				if err != nil {
					return nil, err
				}
				selector = selector.Add(*r)
			}
		}
		parsed := constraint{maxSkew: int(c.MaxSkew), minDomains: 1, key: c.TopologyKey, selector: selector, affinity: true}
		if c.MinDomains != nil {
			parsed.minDomains = int(*c.MinDomains)
		}
		if c.NodeAffinityPolicy != nil {
			parsed.affinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if c.NodeTaintsPolicy != nil {
			parsed.taints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		out = append(out, parsed)
	}
	return out, nil
}
