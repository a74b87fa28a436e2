package check

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// TestFewErrorsOfSelectors checks that long selectors have errors if and only if a label or value is invalid, and not many.
func TestFewErrorsOfSelectors(t *testing.T) {
	loose := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}
	for name, c := range map[string]struct {
		valid    func(i int) bool
		min, max int // errors of labels, and of values
	}{
		"valid":           {valid: func(int) bool { return true }},
		"the last is bad": {valid: func(i int) bool { return i < 4*chunk }, min: 1, max: 1},
		"all are bad":     {valid: func(int) bool { return false }, min: chunk, max: chunk},
	} {
		labels, q := map[string]string{}, metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpIn}
		for i := range 4*chunk + 1 {
			value := fmt.Sprint("v", i)
			if !c.valid(i) {
				value = "!"
			}
			labels[fmt.Sprintf("k%06d", i)] = value
			q.Values = append(q.Values, value)
		}
		if n := len(Selector(&metav1.LabelSelector{MatchLabels: labels}, metav1validation.LabelSelectorValidationOptions{}, Spec)); n < c.min || n > c.max {
			t.Errorf("%s: %d errors of labels", name, n)
		}
		if n := len(Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{q}}, metav1validation.LabelSelectorValidationOptions{}, Spec)); n < c.min || n > c.max {
			t.Errorf("%s: %d errors of values", name, n)
		}
		if n := len(Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{q}}, loose, Spec)); n != 0 {
			t.Errorf("%s: %d errors of values that are not checked", name, n)
		}
	}
	if errs := Selector(nil, loose, Spec); len(errs) > 0 {
		t.Error(errs)
	}
}
