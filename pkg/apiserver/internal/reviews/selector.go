package reviews

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selectorsOf returns the field selector of a review and the errors of its selectors. A requirement that cannot be
// parsed is left out, so that the review covers more objects, not fewer. No authorizer uses labels.
func selectorsOf(r *authorizationv1.ResourceAttributes) (fields.Selector, []string) {
	var problems []string
	var out fields.Selector
	if s := r.FieldSelector; s != nil {
		var err error
		out, err = fieldSelector(s)
		problems = append(problems, ignored("fieldSelector", err, out != nil)...)
	}
	if s := r.LabelSelector; s != nil {
		some, err := labelSelector(s)
		problems = append(problems, ignored("labelSelector", err, some)...)
	}
	return out, problems
}

func ignored(name string, err error, some bool) []string {
	switch {
	case err == nil:
		return nil
	case some:
		return []string{"spec.resourceAttributes." + name + " partially ignored due to parse error"}
	}
	return []string{"spec.resourceAttributes." + name + " ignored due to parse error"}
}

func fieldSelector(s *authorizationv1.FieldSelectorAttributes) (fields.Selector, error) {
	if s.RawSelector != "" {
		return fields.ParseSelector(s.RawSelector)
	}
	var known []fields.Selector
	var errs []error
	for _, q := range s.Requirements {
		switch {
		case len(q.Values) == 1 && q.Operator == metav1.FieldSelectorOpIn:
			known = append(known, fields.OneTermEqualSelector(q.Key, q.Values[0]))
		case len(q.Values) == 1 && q.Operator == metav1.FieldSelectorOpNotIn:
			known = append(known, fields.OneTermNotEqualSelector(q.Key, q.Values[0]))
		default:
			errs = append(errs, fmt.Errorf("field selectors do not support operator %s with %d values", q.Operator, len(q.Values)))
		}
	}
	if len(known) == 0 {
		return nil, errors.Join(errs...)
	}
	return fields.AndSelectors(known...), errors.Join(errs...)
}

// labelSelector reports whether any requirement of a selector can be parsed.
func labelSelector(s *authorizationv1.LabelSelectorAttributes) (some bool, _ error) {
	if s.RawSelector != "" {
		_, err := labels.Parse(s.RawSelector)
		return err == nil, err
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var errs []error
	for _, q := range s.Requirements {
		_, err := labels.NewRequirement(q.Key, operators[q.Operator], q.Values)
		some = some || err == nil
		errs = append(errs, err)
	}
	return some, errors.Join(errs...)
}
