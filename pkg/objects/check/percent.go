package check

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NumberOrPercent checks that v is a non-negative number or a percentage.
func NumberOrPercent(v intstr.IntOrString, at *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return NonNegative(v.IntVal, at)
	}
	if v.Type == intstr.String {
		return Invalid(at, v, utilvalidation.IsValidPercent(v.StrVal))
	}
	return field.ErrorList{field.Invalid(at, v, "must be an integer or percentage (e.g '5%%')")}
}

// AtMostAll checks that a percentage is at most 100.
func AtMostAll(v intstr.IntOrString, at *field.Path) field.ErrorList {
	if p, ok := percent(v); ok && p > 100 {
		return field.ErrorList{field.Invalid(at, v, "must not be greater than 100%")}
	}
	return nil
}

func percent(v intstr.IntOrString) (int, bool) {
	digits, ok := strings.CutSuffix(v.StrVal, "%")
	if v.Type != intstr.String || !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// Amount returns the number, or the number of percent.
func Amount(v intstr.IntOrString) int {
	if p, ok := percent(v); ok {
		return p
	}
	return v.IntValue()
}
