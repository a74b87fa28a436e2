// Package policy holds the rows of the group policy: PodDisruptionBudgets.
package policy

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// PodDisruptionBudgets is the row of PodDisruptionBudget.
var PodDisruptionBudgets = objects.Def[*policyv1.PodDisruptionBudget]{
	Names: objects.Names{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget", Plural: "poddisruptionbudgets",
		Short: []string{"pdb"}},
	Versions:   []objects.Version[*policyv1.PodDisruptionBudget]{firstBudget()},
	New:        newBudget,
	Controller: "disruption-controller",
	NewList:    func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
	ValidName:  check.PathSegment,
	Prepare:    prepareBudget,
	Validate:   validateBudget,
	Columns: []objects.Column[*policyv1.PodDisruptionBudget]{
		objects.NameColumn[*policyv1.PodDisruptionBudget](),
		{Name: "Min Available", Description: "The minimum number of pods that must be available.",
			Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return orNone(b.Spec.MinAvailable) }},
		{Name: "Max Unavailable", Description: "The maximum number of pods that may be unavailable.",
			Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return orNone(b.Spec.MaxUnavailable) }},
		{Name: "Allowed Disruptions", Type: "integer", Description: "Calculated number of pods that may be disrupted at this time.",
			Cell: func(b *policyv1.PodDisruptionBudget, _ time.Time) any { return int64(b.Status.DisruptionsAllowed) }},
		objects.AgeColumn[*policyv1.PodDisruptionBudget](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*policyv1.PodDisruptionBudget]{
		Prepare:  func(b, old *policyv1.PodDisruptionBudget) { b.Spec = old.Spec },
		Validate: validateBudgetStatus,
		Reset:    []string{"spec"},
	},
	NeedsVersion: true,
}

func newBudget() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} }

func orNone(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

func prepareBudget(b, old *policyv1.PodDisruptionBudget) {
	if old == nil {
		b.Status = policyv1.PodDisruptionBudgetStatus{}
		b.Generation = 1
		return
	}
	b.Status = old.Status
	check.Generation(b, old, func() bool { return !check.Same(&b.Spec, &old.Spec) })
}

// shownBudget formats a spec for an error message, with Go's field names.
type shownBudget struct {
	MinAvailable               *intstr.IntOrString
	Selector                   *metav1.LabelSelector
	MaxUnavailable             *intstr.IntOrString
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType
}

// validateBudget checks the metadata of a new object only if all else is valid, and not in updates, as Kubernetes
// does. A budget's name may be any path segment.
func validateBudget(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	s, at := &b.Spec, check.Spec
	var errs field.ErrorList
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(at, shownBudget{s.MinAvailable, s.Selector, s.MaxUnavailable, s.UnhealthyPodEvictionPolicy},
			"minAvailable and maxUnavailable cannot be both set"))
	}
	for _, amount := range []struct {
		name string
		of   *intstr.IntOrString
	}{{"minAvailable", s.MinAvailable}, {"maxUnavailable", s.MaxUnavailable}} {
		if amount.of != nil {
			errs = append(errs, check.NumberOrPercent(*amount.of, at.Child(amount.name))...)
			errs = append(errs, check.AtMostAll(*amount.of, at.Child(amount.name))...)
		}
	}
	errs = append(errs, check.Selector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	if s.UnhealthyPodEvictionPolicy != nil {
		errs = append(errs, check.OneOf(*s.UnhealthyPodEvictionPolicy,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}, at, "unhealthyPodEvictionPolicy")...)
	}
	if old == nil && len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(b, true, check.PathSegment, check.Metadata)
	}
	return errs
}

func validateBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	s, at := &b.Status, check.Status
	errs := metav1validation.ValidateConditions(s.Conditions, at.Child("conditions"))
	errs = append(errs, check.NonNegative(s.DisruptionsAllowed, at, "disruptionsAllowed")...)
	errs = append(errs, check.NonNegative(s.CurrentHealthy, at, "currentHealthy")...)
	errs = append(errs, check.NonNegative(s.DesiredHealthy, at, "desiredHealthy")...)
	return append(errs, check.NonNegative(s.ExpectedPods, at, "expectedPods")...)
}

// emptySelector is the key of a label that no pod has. An empty selector matches no pod in v1beta1 and all pods in v1, so the key is used to
// express the opposite in either version.
const emptySelector = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func firstBudget() objects.Version[*policyv1.PodDisruptionBudget] {
	v := objects.Older("policy/v1beta1", "policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+; use policy/v1 PodDisruptionBudget",
		newBudget, func() *policyv1beta1.PodDisruptionBudget { return &policyv1beta1.PodDisruptionBudget{} },
		func() runtime.Object { return &policyv1beta1.PodDisruptionBudgetList{} })
	to, from := v.To, v.From
	v.To = func(obj runtime.Object) (*policyv1.PodDisruptionBudget, error) {
		b, err := to(obj)
		if err == nil {
			b.Spec.Selector = translated(b.Spec.Selector, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
		}
		return b, err
	}
	v.From = func(b *policyv1.PodDisruptionBudget) (runtime.Object, error) {
		obj, err := from(b)
		if older, ok := obj.(*policyv1beta1.PodDisruptionBudget); ok && err == nil {
			older.Spec.Selector = translated(older.Spec.Selector, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpExists)
		}
		return obj, err
	}
	return v
}

// translated converts an empty selector to one of emptySelector with operator full, and one with operator bare to an empty selector.
func translated(s *metav1.LabelSelector, full, bare metav1.LabelSelectorOperator) *metav1.LabelSelector {
	switch {
	case s == nil || len(s.MatchLabels) > 0 || len(s.MatchExpressions) > 1:
		return s
	case len(s.MatchExpressions) == 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: emptySelector, Operator: full}}}
	case s.MatchExpressions[0].Key == emptySelector && s.MatchExpressions[0].Operator == bare:
		return &metav1.LabelSelector{}
	}
	return s
}
