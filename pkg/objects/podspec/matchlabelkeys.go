package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeMatchLabelKeys adds the label keys of affinity terms and spread constraints to the selectors, as requirements with the
// pod's values.
func MergeMatchLabelKeys(s *corev1.PodSpec, labels map[string]string) {
	if a := s.Affinity; a != nil {
		if a.PodAffinity != nil {
			mergeTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, labels)
			mergeWeighted(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, labels)
		}
		if a.PodAntiAffinity != nil {
			mergeTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, labels)
			mergeWeighted(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, labels)
		}
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	}
}

func mergeTerms(terms []corev1.PodAffinityTerm, labels map[string]string) {
	for i := range terms {
		mergeTerm(&terms[i], labels)
	}
}

func mergeWeighted(terms []corev1.WeightedPodAffinityTerm, labels map[string]string) {
	for i := range terms {
		mergeTerm(&terms[i].PodAffinityTerm, labels)
	}
}

func mergeTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	merge(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	merge(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

func merge(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}
