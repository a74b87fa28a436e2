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

// The library checks names with regular expressions, which cost more than all else in a check. So each name is first
// checked byte by byte, and only for an invalid one is the library called, which returns the message.

// Most checks take a path and the names of children below it, so that the full path is built only for an error.

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

// PathSegment returns what is wrong with a name, or with prefix with a generateName, as a path segment.
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
	for _, key := range slices.Sorted(maps.Keys(labels)) { // sorted, since the library checks them in random order
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

// Invalid returns an error for each message.
func Invalid(at *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(at, value, msg))
	}
	return errs
}

// OneOf checks that value is one of the allowed ones. The error lists them in their order.
func OneOf[S ~string](value S, allowed []S, at *field.Path, child ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(Below(at, child), value, allowed)}
}

// Named is OneOf for a required field.
func Named[S ~string](value S, allowed []S, at *field.Path, child ...string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(Below(at, child), "")}
	}
	return OneOf(value, allowed, at, child...)
}
