package check

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The library finds wrong names with regular expressions, which cost more than all else in a check. So each name is first
// looked at byte by byte, and only one that is wrong goes to the library, which then says why.

// Label checks a DNS label.
func Label(value string, at *field.Path) field.ErrorList {
	if isDNSLabel(value) {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsDNS1123Label(value))
}

// Subdomain checks a DNS subdomain, which most names are.
func Subdomain(value string, at *field.Path) field.ErrorList {
	if isSubdomain(value) {
		return nil
	}
	return Invalid(at, value, validation.NameIsDNSSubdomain(value, false))
}

// Qualified checks a name with an optional prefix: example.com/name.
func Qualified(value string, at *field.Path) field.ErrorList {
	if isQualified(value) {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsQualifiedName(value))
}

// LabelKey checks the key of a label.
func LabelKey(value string, at *field.Path) field.ErrorList {
	if isQualified(value) {
		return nil
	}
	return metav1validation.ValidateLabelName(value, at)
}

// LabelValue checks the value of a label.
func LabelValue(value string, at *field.Path) field.ErrorList {
	if isLabelValue(value) {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsValidLabelValue(value))
}

// Labels checks keys and values.
func Labels(labels map[string]string, at *field.Path) field.ErrorList {
	if areLabels(labels) {
		return nil
	}
	return metav1validation.ValidateLabels(labels, at)
}

// ConfigKey checks a key of a ConfigMap or Secret.
func ConfigKey(value string, at *field.Path) field.ErrorList {
	if isConfigKey(value) {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsConfigMapKey(value))
}

// PortName checks the name of a port.
func PortName(value string, at *field.Path) field.ErrorList {
	if isPortName(value) {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsValidPortName(value))
}

// PortNumber checks the number of a port.
func PortNumber(value int32, at *field.Path) field.ErrorList {
	if 1 <= value && value <= 65535 {
		return nil
	}
	return Invalid(at, value, utilvalidation.IsValidPortNum(int(value)))
}

// Invalid makes an error of each message.
func Invalid(at *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(at, value, msg))
	}
	return errs
}

// OneOf checks that value is among the allowed ones, which are listed in their order otherwise.
func OneOf[S ~string](value S, allowed []S, at *field.Path) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// Named is like OneOf for a field that must be set.
func Named[S ~string](value S, allowed []S, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return OneOf(value, allowed, at)
}
