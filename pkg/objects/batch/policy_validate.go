package batch

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// The limits of policies and their rules.
const (
	maxRules      = 20
	maxExitCodes  = 255
	maxConditions = 20
	maxIndexText  = 64 << 10
)

func validateFailurePolicy(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	if s.PodFailurePolicy == nil {
		return nil
	}
	var errs field.ErrorList
	rules := at.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxRules {
		errs = append(errs, field.TooMany(rules, n, maxRules))
	}
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{s.Template.Spec.Containers, s.Template.Spec.InitContainers} {
		for i := range list {
			names[list[i].Name] = true
		}
	}
	for i := range s.PodFailurePolicy.Rules {
		errs = append(errs, validateFailureRule(s, &s.PodFailurePolicy.Rules[i], names, rules.Index(i))...)
	}
	return errs
}

var failureActions = []batchv1.PodFailurePolicyAction{
	batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
	batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
}

func validateFailureRule(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, names map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case r.Action == "":
		errs = append(errs, field.Required(at.Child("action"), fmt.Sprintf("valid values: %q", failureActions)))
	case r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(at.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, check.OneOf(r.Action, failureActions, at, "action")...)
	}
	if r.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(r.OnExitCodes, names, at.Child("onExitCodes"))...)
	}
	if len(r.OnPodConditions) > 0 {
		errs = append(errs, validatePodConditions(r.OnPodConditions, at.Child("onPodConditions"))...)
	}
	switch {
	case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateExitCodes(c *batchv1.PodFailurePolicyOnExitCodesRequirement, names map[string]bool, at *field.Path) field.ErrorList {
	operators := []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	var errs field.ErrorList
	if c.Operator == "" {
		errs = append(errs, field.Required(at.Child("operator"), fmt.Sprintf("valid values: %q", operators)))
	} else {
		errs = append(errs, check.OneOf(c.Operator, operators, at, "operator")...)
	}
	if c.ContainerName != nil && !names[*c.ContainerName] {
		errs = append(errs, field.Invalid(at.Child("containerName"), *c.ContainerName, "must be one of the container or initContainer names in the pod template"))
	}
	values := at.Child("values")
	if len(c.Values) == 0 {
		errs = append(errs, field.Invalid(values, c.Values, "at least one value is required"))
	} else if len(c.Values) > maxExitCodes {
		errs = append(errs, field.TooMany(values, len(c.Values), maxExitCodes))
	}
	sorted := true
	seen := map[int32]bool{}
	for i, code := range c.Values {
		if c.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0 {
			errs = append(errs, field.Invalid(values.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen[code] {
			errs = append(errs, field.Duplicate(values.Index(i), code))
		}
		seen[code] = true
		sorted = sorted && (i == 0 || c.Values[i-1] <= code)
	}
	if !sorted {
		errs = append(errs, field.Invalid(values, c.Values, "must be ordered"))
	}
	return errs
}

func validatePodConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxConditions {
		errs = append(errs, field.TooMany(at, len(patterns), maxConditions))
	}
	statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
	for i := range patterns {
		errs = append(errs, check.Qualified(string(patterns[i].Type), at.Index(i), "type")...)
		if patterns[i].Status == "" {
			errs = append(errs, field.Required(at.Index(i).Child("status"), fmt.Sprintf("valid values: %q", statuses)))
			continue
		}
		errs = append(errs, check.OneOf(patterns[i].Status, statuses, at.Index(i), "status")...)
	}
	return errs
}

func validateSuccessPolicy(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	p := s.SuccessPolicy
	if p == nil {
		return nil
	}
	if !isIndexed(s) {
		return field.ErrorList{field.Invalid(at, check.Shown(p), "requires indexed completion mode")}
	}
	rules := at.Child("rules")
	if len(p.Rules) == 0 {
		return field.ErrorList{field.Required(rules, "at least one rules must be specified when the successPolicy is specified")}
	}
	var errs field.ErrorList
	if len(p.Rules) > maxRules {
		errs = append(errs, field.TooMany(rules, len(p.Rules), maxRules))
	}
	for i := range p.Rules {
		errs = append(errs, validateSuccessRule(s, &p.Rules[i], rules.Index(i))...)
	}
	return errs
}

func validateSuccessRule(s *batchv1.JobSpec, r *batchv1.SuccessPolicyRule, at *field.Path) field.ErrorList {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		return field.ErrorList{field.Required(at, "at least one of succeededCount or succeededIndexes must be specified")}
	}
	var errs field.ErrorList
	total := int32(0)
	if r.SucceededIndexes != nil {
		indexes := at.Child("succeededIndexes")
		if len(*r.SucceededIndexes) > maxIndexText {
			errs = append(errs, field.TooLong(indexes, *r.SucceededIndexes, maxIndexText))
		}
		n, err := countIndexes(*r.SucceededIndexes, s.Completions)
		if err != nil {
			errs = append(errs, field.Invalid(indexes, *r.SucceededIndexes, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
		}
		total = n
	}
	if r.SucceededCount == nil {
		return errs
	}
	count := at.Child("succeededCount")
	errs = append(errs, check.NonNegative(*r.SucceededCount, count)...)
	if s.Completions != nil && *r.SucceededCount > *s.Completions {
		errs = append(errs, field.Invalid(count, *r.SucceededCount, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *s.Completions)))
	}
	if r.SucceededIndexes != nil && *r.SucceededCount > total {
		errs = append(errs, field.Invalid(count, *r.SucceededCount, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)))
	}
	return errs
}

// countIndexes counts the indexes in a list of ascending numbers and intervals: "1,3-5,7". Without completions there is
// no upper bound.
func countIndexes(text string, completions *int32) (int32, error) {
	if text == "" {
		return 0, nil
	}
	var last *int
	total := int32(0)
	for _, part := range strings.Split(text, ",") {
		first, end, err := indexInterval(part, completions)
		if err != nil {
			return 0, err
		}
		if last != nil && *last >= first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", *last, first)
		}
		total += int32(end-first) + 1
		last = &end
	}
	return total, nil
}

// indexInterval parses a number or two numbers separated by a dash.
func indexInterval(text string, completions *int32) (first, end int, err error) {
	bounds := strings.Split(text, "-")
	if len(bounds) > 2 {
		return 0, 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	var n [2]int
	for i, bound := range bounds {
		if n[i], err = strconv.Atoi(bound); err != nil {
			return 0, 0, fmt.Errorf("cannot convert string to integer for index: %q", bound)
		}
		if completions != nil && n[i] >= int(*completions) {
			return 0, 0, fmt.Errorf("too large index: %q", bound)
		}
	}
	if len(bounds) == 1 {
		return n[0], n[0], nil
	}
	if n[0] >= n[1] {
		return 0, 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", n[0], n[1])
	}
	return n[0], n[1], nil
}

// interval is a run of indexes.
type interval struct{ first, end int }

// intervals parses a list of intervals and skips malformed ones.
func intervals(text string, completions *int32) []interval {
	var out []interval
	for part := range strings.SplitSeq(text, ",") {
		if first, end, err := indexInterval(part, completions); err == nil {
			out = append(out, interval{first, end})
		}
	}
	return out
}

// overlap returns an error with the first index that is in both ascending lists.
func overlap(completed, failed string, completions *int32) error {
	done, lost := intervals(completed, completions), intervals(failed, completions)
	for len(done) > 0 && len(lost) > 0 {
		switch c, f := done[0], lost[0]; {
		case c.first <= f.end && f.first <= c.end:
			return fmt.Errorf("failedIndexes and completedIndexes overlap at index: %d", max(c.first, f.first))
		case c.first <= f.first:
			done = done[1:]
		default:
			lost = lost[1:]
		}
	}
	return nil
}
