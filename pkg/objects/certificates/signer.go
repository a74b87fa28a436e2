package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The maximum length of a signer's name: a domain, a slash, and a namespace, a dot and a name.
const (
	longestDomain = validation.DNS1123SubdomainMaxLength
	longestSigner = longestDomain + 1 + validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 1
)

// signerName checks a name of the form example.com/signer.
func signerName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, path, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(path, "/") {
		return field.ErrorList{field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > longestDomain {
		errs = append(errs, field.TooLong(at, "", longestDomain))
	}
	errs = append(errs, labels(domain, validation.IsDNS1123Label, at)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, labels(path, validation.IsDNS1123Subdomain, at)...)
	if len(name) > longestSigner {
		errs = append(errs, field.TooLong(at, "", longestSigner))
	}
	return errs
}

// labels checks the dot-separated parts of a text, up to the first invalid one.
func labels(text string, check func(string) []string, at *field.Path) field.ErrorList {
	for _, label := range strings.Split(text, ".") {
		var errs field.ErrorList
		for _, msg := range check(label) {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
		if len(errs) > 0 {
			return errs
		}
	}
	return nil
}
