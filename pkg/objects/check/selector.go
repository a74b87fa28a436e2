package check

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Selector checks a label selector. Of hundreds of thousands of labels or values, those up to the end of the first chunk with errors are
// checked.
func Selector(s *metav1.LabelSelector, opts metav1validation.LabelSelectorValidationOptions, at *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(withFewSelected(s, opts), opts, at)
}

// withFewSelected returns a selector that is valid if and only if s is.
func withFewSelected(s *metav1.LabelSelector, opts metav1validation.LabelSelectorValidationOptions) *metav1.LabelSelector {
	long := func(q metav1.LabelSelectorRequirement) bool { return len(q.Values) > chunk }
	if s == nil || len(s.MatchLabels) <= chunk && !slices.ContainsFunc(s.MatchExpressions, long) {
		return s
	}
	few := *s
	if len(s.MatchLabels) > chunk {
		keys := untilErrors(slices.Sorted(maps.Keys(s.MatchLabels)), func(part []string) bool {
			return !slices.ContainsFunc(part, func(key string) bool { return len(Labels(map[string]string{key: s.MatchLabels[key]}, Metadata)) > 0 })
		})
		few.MatchLabels = make(map[string]string, len(keys))
		for _, key := range keys {
			few.MatchLabels[key] = s.MatchLabels[key]
		}
	}
	few.MatchExpressions = slices.Clone(s.MatchExpressions)
	for i := range few.MatchExpressions {
		q := &few.MatchExpressions[i]
		q.Values = untilErrors(q.Values, func(part []string) bool {
			some := metav1.LabelSelectorRequirement{Key: "key", Operator: metav1.LabelSelectorOpIn, Values: part}
			return len(metav1validation.ValidateLabelSelectorRequirement(some, opts, nil)) == 0
		})
	}
	return &few
}
