package authz

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Reconciled returns the stored object have with everything added that it lacks of the default object want. It returns
// nil if nothing is missing, or if the object's annotation turns reconciliation off. Additional rules and subjects stay.
// With recreate, the object must be deleted and created again, since a binding's role is immutable.
func Reconciled(have, want objects.Object) (next objects.Object, recreate bool) {
	if have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return nil, false
	}
	next = have.DeepCopyObject().(objects.Object)
	changed := false
	switch want := want.(type) {
	case *rbacv1.ClusterRole:
		changed = aggregate(next.(*rbacv1.ClusterRole), want)
	case *rbacv1.Role:
		next := next.(*rbacv1.Role)
		next.Rules, changed = withRules(next.Rules, want.Rules)
	case *rbacv1.ClusterRoleBinding:
		next := next.(*rbacv1.ClusterRoleBinding)
		if next.RoleRef != want.RoleRef {
			return want, true
		}
		next.Subjects, changed = withSubjects(next.Subjects, want.Subjects)
	case *rbacv1.RoleBinding:
		next := next.(*rbacv1.RoleBinding)
		if next.RoleRef != want.RoleRef {
			return want, true
		}
		next.Subjects, changed = withSubjects(next.Subjects, want.Subjects)
	}
	labels, more := withMarks(next.GetLabels(), want.GetLabels())
	next.SetLabels(labels)
	changed = changed || more
	annotations, more := withMarks(next.GetAnnotations(), want.GetAnnotations())
	next.SetAnnotations(annotations)
	if changed || more {
		return next, false
	}
	return nil, false
}

// aggregate adds the missing rules or aggregation selectors of a ClusterRole. The controller sets the rules of an
// aggregated role.
func aggregate(next, want *rbacv1.ClusterRole) bool {
	if want.AggregationRule == nil {
		was := next.AggregationRule != nil
		next.AggregationRule = nil
		rules, changed := withRules(next.Rules, want.Rules)
		next.Rules = rules
		return changed || was
	}
	if next.AggregationRule == nil {
		next.AggregationRule = &rbacv1.AggregationRule{}
	}
	changed := false
	for _, s := range want.AggregationRule.ClusterRoleSelectors {
		same := func(o metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(o, s) }
		if !slices.ContainsFunc(next.AggregationRule.ClusterRoleSelectors, same) {
			next.AggregationRule.ClusterRoleSelectors = append(next.AggregationRule.ClusterRoleSelectors, s)
			changed = true
		}
	}
	return changed
}

func withRules(have, want []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, bool) {
	ok, missing := validation.Covers(have, want)
	if ok {
		return have, false
	}
	return append(have, missing...), true
}

func withSubjects(have, want []rbacv1.Subject) ([]rbacv1.Subject, bool) {
	changed := false
	for _, s := range want {
		if !slices.Contains(have, s) {
			have, changed = append(have, s), true
		}
	}
	return have, changed
}

// withMarks returns the labels or annotations with the missing ones added.
func withMarks(have, want map[string]string) (map[string]string, bool) {
	out := maps.Clone(want)
	if out == nil {
		return have, false
	}
	maps.Copy(out, have)
	return out, len(out) != len(have)
}
