package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	// TaintEffects are the valid effects of taints.
	TaintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

	// tolerationOperators are the operators in error messages, except in those about numeric comparisons, whose gate is
	// off.
	tolerationOperators = []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	gatedOperators      = append(slices.Clip(tolerationOperators), corev1.TolerationOpLt, corev1.TolerationOpGt)
)

// Tolerations checks tolerations.
func Tolerations(list []corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, toleration(&list[i], at.Index(i))...)
	}
	return errs
}

func toleration(t *corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, check.LabelKey(t.Key, at, "key")...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if check.LabelValue(t.Value, nil) != nil {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Value, strings.Join(utilvalidation.IsValidLabelValue(t.Value), ";")))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, gatedOperators))
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, tolerationOperators))
	}
	if t.Effect != "" {
		errs = append(errs, check.OneOf(t.Effect, TaintEffects, at, "effect")...)
	}
	return errs
}
