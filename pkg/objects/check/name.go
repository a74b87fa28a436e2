package check

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The library finds wrong names with regular expressions, which cost more than all else in a check. So each name is first
// looked at byte by byte, and only one that is wrong goes to the library, which then says why.

// Most checks take a place and the names of the children that lead on from it, so that a path is made only for an error.

// Below returns the path of a child, or at itself if there is none.
func Below(at *field.Path, child []string) *field.Path {
	if len(child) == 0 {
		return at
	}
	return at.Child(child[0], child[1:]...)
}

// Label checks a DNS label.
func Label(value string, at *field.Path, child ...string) field.ErrorList {
	if isDNSLabel(value) {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsDNS1123Label(value))
}

// PathSegment says what keeps a name, or with prefix what one begins with, from being a part of a path.
func PathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Subdomain checks a DNS subdomain, which most names are.
func Subdomain(value string, at *field.Path, child ...string) field.ErrorList {
	if isSubdomain(value) {
		return nil
	}
	return Invalid(Below(at, child), value, validation.NameIsDNSSubdomain(value, false))
}

// Qualified checks a name with an optional prefix: example.com/name.
func Qualified(value string, at *field.Path, child ...string) field.ErrorList {
	if isQualified(value) {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsQualifiedName(value))
}

// LabelKey checks the key of a label.
func LabelKey(value string, at *field.Path, child ...string) field.ErrorList {
	if isQualified(value) {
		return nil
	}
	return metav1validation.ValidateLabelName(value, Below(at, child))
}

// LabelValue checks the value of a label.
func LabelValue(value string, at *field.Path, child ...string) field.ErrorList {
	if isLabelValue(value) {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsValidLabelValue(value))
}

// Labels checks keys and values.
func Labels(labels map[string]string, at *field.Path, child ...string) field.ErrorList {
	if areLabels(labels) {
		return nil
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) { // one by one: the library goes through them in no order
		errs = append(errs, metav1validation.ValidateLabels(map[string]string{key: labels[key]}, Below(at, child))...)
	}
	return errs
}

// ConfigKey checks a key of a ConfigMap or Secret.
func ConfigKey(value string, at *field.Path, child ...string) field.ErrorList {
	if isConfigKey(value) {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsConfigMapKey(value))
}

// PortName checks the name of a port.
func PortName(value string, at *field.Path, child ...string) field.ErrorList {
	if isPortName(value) {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsValidPortName(value))
}

// PortNumber checks the number of a port.
func PortNumber(value int32, at *field.Path, child ...string) field.ErrorList {
	if 1 <= value && value <= 65535 {
		return nil
	}
	return Invalid(Below(at, child), value, utilvalidation.IsValidPortNum(int(value)))
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
func OneOf[S ~string](value S, allowed []S, at *field.Path, child ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(Below(at, child), value, allowed)}
}

// Named is like OneOf for a field that must be set.
func Named[S ~string](value S, allowed []S, at *field.Path, child ...string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(Below(at, child), "")}
	}
	return OneOf(value, allowed, at, child...)
}
