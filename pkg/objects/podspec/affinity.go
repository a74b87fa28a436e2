package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func validateAffinity(a *corev1.Affinity, at *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	at = at.Child("affinity")
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		errs = append(errs, nodeAffinity(n, at.Child("nodeAffinity"))...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return errs
}

func nodeAffinity(n *corev1.NodeAffinity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		errs = append(errs, NodeSelector(s, at.Child(required))...)
	}
	for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		t, idx := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], at.Child(preferred).Index(i)
		errs = append(errs, weight(t.Weight, idx)...)
		errs = append(errs, nodeTerm(&t.Preference, true, idx.Child("preference"))...)
	}
	return errs
}

func weight(w int32, at *field.Path) field.ErrorList {
	if 1 <= w && w <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("weight"), w, "must be in the range 1-100")}
}

// NodeSelector checks a selector of nodes.
func NodeSelector(s *corev1.NodeSelector, at *field.Path) field.ErrorList {
	at = at.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, nodeTerm(&s.NodeSelectorTerms[i], false, at.Index(i))...)
	}
	return errs
}

// nodeTerm checks a term. With anyValue, for preferred terms, it does not check values.
func nodeTerm(t *corev1.NodeSelectorTerm, anyValue bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.MatchExpressions {
		errs = append(errs, nodeRequirement(&t.MatchExpressions[i], anyValue, at.Child("matchExpressions").Index(i))...)
	}
	for i := range t.MatchFields {
		errs = append(errs, nodeField(&t.MatchFields[i], at.Child("matchFields").Index(i))...)
	}
	return errs
}

func nodeRequirement(r *corev1.NodeSelectorRequirement, anyValue bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, check.LabelKey(r.Key, at, "key")...)
	if anyValue {
		return errs
	}
	for i, value := range r.Values {
		errs = append(errs, check.LabelValue(value, at.Child("values").Index(i))...)
	}
	return errs
}

func nodeField(r *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	} else if len(r.Values) != 1 {
		errs = append(errs, field.Required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(at.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		errs = append(errs, check.Subdomain(value, at.Child("values").Index(i))...)
	}
	return errs
}

func podTerms(need []corev1.PodAffinityTerm, like []corev1.WeightedPodAffinityTerm, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range need {
		errs = append(errs, podTerm(&need[i], at.Child(required).Index(i))...)
	}
	for i := range like {
		idx := at.Child(preferred).Index(i)
		errs = append(errs, weight(like[i].Weight, idx)...)
		errs = append(errs, podTerm(&like[i].PodAffinityTerm, idx.Child("podAffinityTerm"))...)
	}
	return errs
}

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return check.Selector(s, metav1validation.LabelSelectorValidationOptions{}, at)
}

func podTerm(t *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := selector(t.LabelSelector, at.Child("labelSelector"))
	errs = append(errs, selector(t.NamespaceSelector, at.Child("namespaceSelector"))...)
	for _, name := range t.Namespaces {
		errs = append(errs, check.Label(name, at, "namespace")...)
	}
	errs = append(errs, labelKeys(t, at)...)
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, check.LabelKey(t.TopologyKey, at, "topologyKey")...)
}

// labelKeys checks matchLabelKeys and mismatchLabelKeys. They are already merged into the selector, so a key that the
// user's selector has as well occurs twice.
func labelKeys(t *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := keysOf(t.MatchLabelKeys, t.LabelSelector, at.Child("matchLabelKeys"))
	errs = append(errs, keysOf(t.MismatchLabelKeys, t.LabelSelector, at.Child("mismatchLabelKeys"))...)
	if len(t.MatchLabelKeys) == 0 {
		return errs
	}
	places := map[string]int{} // the first index of each key
	for i, key := range slices.Backward(t.MatchLabelKeys) {
		places[key] = i
	}
	if s := t.LabelSelector; s != nil {
		var before check.Seen[string]
		for i := range s.MatchExpressions {
			key := s.MatchExpressions[i].Key
			_, labelled := s.MatchLabels[key]
			twice := before.Again(key)
			if place, ok := places[key]; ok && (labelled || twice) {
				errs = append(errs, field.Invalid(at.Index(place), key, "exists in both matchLabelKeys and labelSelector"))
			}
		}
	}
	mismatched := check.SeenOf(t.MismatchLabelKeys)
	for i, key := range t.MatchLabelKeys {
		if mismatched.Has(key) {
			errs = append(errs, field.Invalid(at.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

func keysOf(keys []string, s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if len(keys) == 0 {
		return nil
	}
	if s == nil {
		return field.ErrorList{field.Forbidden(at, "must not be specified when labelSelector is not set")}
	}
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, check.LabelKey(key, at.Index(i))...)
	}
	return errs
}
