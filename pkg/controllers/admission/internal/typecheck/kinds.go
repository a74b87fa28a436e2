package typecheck

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxKinds bounds the kinds that a policy is checked for.
const maxKinds = 10

// matchedKinds returns the kinds that a policy names, sorted. Rules with wildcards name none.
func matchedKinds(p *admissionv1.ValidatingAdmissionPolicy, types Types) ([]schema.GroupVersionKind, error) {
	if p.Spec.MatchConstraints == nil {
		return nil, nil
	}
	var out []schema.GroupVersionKind
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		named, full, err := ofRule(&rule.Rule, types)
		if err != nil {
			return nil, err
		}
		for _, kind := range named {
			if !slices.Contains(out, kind) {
				out = append(out, kind)
			}
		}
		if full {
			break
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// ofRule returns the kinds that a rule names, at most maxKinds. full reports whether it stopped at maxKinds.
func ofRule(r *admissionv1.Rule, types Types) (out []schema.GroupVersionKind, full bool, err error) {
	wild := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(r.APIGroups, wild) || slices.ContainsFunc(r.APIVersions, wild) {
		return nil, false, nil
	}
	for _, group := range slices.Sorted(slices.Values(r.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(r.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(r.Resources)) {
				if strings.ContainsAny(resource, "*/") {
					continue
				}
				kinds, err := types.Kinds(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
				if err != nil {
					return nil, false, err
				}
				if out = append(out, kinds...); len(out) >= maxKinds {
					return out[:maxKinds], true, nil
				}
			}
		}
	}
	return out, false, nil
}
