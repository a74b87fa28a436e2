package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// valuesOf counts the values of a device's attributes; a list counts each of its values.
func valuesOf(d *resourcev1.Device) int {
	n := 0
	for _, a := range d.Attributes {
		n += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	return n
}

// attribute checks that an attribute has exactly one type and a valid value.
func attribute(a resourcev1.DeviceAttribute, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	for _, is := range []bool{a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.BoolValues != nil, a.IntValues != nil, a.StringValues != nil, a.VersionValues != nil} {
		if is {
			n++
		}
	}
	if a.StringValue != nil {
		errs = append(errs, text(a.StringValue, at.Child("string"))...)
	}
	if a.VersionValue != nil {
		errs = append(errs, semver(a.VersionValue, at.Child("version"))...)
	}
	const empty = "must not be empty if specified"
	if a.BoolValues != nil && len(a.BoolValues) == 0 {
		errs = append(errs, field.Invalid(at.Child("bools"), a.BoolValues, empty))
	}
	if a.IntValues != nil && len(a.IntValues) == 0 {
		errs = append(errs, field.Invalid(at.Child("ints"), a.IntValues, empty))
	}
	if a.StringValues != nil && len(a.StringValues) == 0 {
		errs = append(errs, field.Invalid(at.Child("strings"), a.StringValues, empty))
	}
	errs = append(errs, items(a.StringValues, unlimited, at.Child("strings"), text)...)
	if a.VersionValues != nil && len(a.VersionValues) == 0 {
		errs = append(errs, field.Invalid(at.Child("versions"), a.VersionValues, empty))
	}
	errs = append(errs, items(a.VersionValues, unlimited, at.Child("versions"), semver)...)
	switch {
	case n == 0:
		errs = append(errs, field.Invalid(at, "", "exactly one value must be specified"))
	case n > 1:
		errs = append(errs, field.Invalid(at, check.Shown(a), "exactly one value must be specified"))
	}
	return errs
}

func text(s *string, at *field.Path) field.ErrorList {
	if len(*s) > resourcev1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

func semver(s *string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !isSemver(*s) {
		errs = append(errs, field.Invalid(at, *s, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, text(s, at)...)
}

// isSemver reports whether s is MAJOR.MINOR.PATCH[-PRE.RELEASE][+BUILD.META].
func isSemver(s string) bool {
	s, build, built := strings.Cut(s, "+")
	s, pre, early := strings.Cut(s, "-")
	numbers := strings.Split(s, ".")
	if len(numbers) != 3 {
		return false
	}
	for _, n := range numbers {
		if !isDigits(n) || n[0] == '0' && n != "0" {
			return false
		}
	}
	if early {
		for part := range strings.SplitSeq(pre, ".") {
			if !isIdentifier(part) || isDigits(part) && part[0] == '0' && part != "0" {
				return false
			}
		}
	}
	if built {
		for part := range strings.SplitSeq(build, ".") {
			if !isIdentifier(part) {
				return false
			}
		}
	}
	return true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isIdentifier(s string) bool {
	for _, c := range s {
		if c != '-' && (c < '0' || '9' < c) && (c < 'A' || 'Z' < c) && (c < 'a' || 'z' < c) {
			return false
		}
	}
	return s != ""
}

// qualified checks a name with an optional domain. Like Kubernetes it accepts names of more parts.
func qualified(name resourcev1.QualifiedName, at *field.Path) field.ErrorList {
	parts := strings.Split(string(name), "/")
	if len(parts) == 1 {
		return identifier(parts[0], at)
	}
	if len(parts) > 2 {
		return nil
	}
	var errs field.ErrorList
	if parts[0] == "" {
		errs = append(errs, field.Invalid(at, "", "the domain must not be empty"))
	} else {
		errs = append(errs, volume.ValidateDriver(parts[0], at)...)
	}
	if parts[1] == "" {
		return append(errs, field.Invalid(at, "", "the name must not be empty"))
	}
	return append(errs, identifier(parts[1], at)...)
}

func fullyQualified(name resourcev1.FullyQualifiedName, at *field.Path) field.ErrorList {
	errs := qualified(resourcev1.QualifiedName(name), at)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func identifier(id string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, check.Invalid(at, id, content.IsCIdentifier(id))...)
}
