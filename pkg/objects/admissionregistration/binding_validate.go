package admissionregistration

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateValidatingBinding(b, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := append(validateMeta(b), validatePolicyName(b.Spec.PolicyName)...)
	errs = append(errs, validateParamRef(b.Spec.ParamRef, check.Spec.Child("paramRef"))...)
	errs = append(errs, validateMatch(b.Spec.MatchResources, check.Spec.Child("matchResources"))...)
	return append(errs, validateActions(b.Spec.ValidationActions, check.Spec.Child("validationActions"))...)
}

func validateMutatingBinding(b, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := append(validateMeta(b), validatePolicyName(b.Spec.PolicyName)...)
	errs = append(errs, validateParamRef(b.Spec.ParamRef, check.Spec.Child("paramRef"))...)
	errs = append(errs, validateMatch(b.Spec.MatchResources, check.Spec.Child("matchResources"))...)
	return append(errs, mutable(b.Spec.MatchResources, check.Spec.Child("matchResources"))...)
}

func validatePolicyName(name string) field.ErrorList {
	at := check.Spec.Child("policyName")
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Invalid(at, name, apivalidation.NameIsDNSSubdomain(name, false))
}

var notFoundActions = []admissionv1.ParameterNotFoundActionType{admissionv1.DenyAction, admissionv1.AllowAction}

func validateParamRef(p *admissionv1.ParamRef, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	const both = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, check.Invalid(at.Child("name"), p.Name, content.IsPathSegmentName(p.Name))...)
		if p.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), both))
		}
	}
	if p.Selector != nil {
		errs = append(errs, validateSelector(p.Selector, false, at.Child("selector"))...)
		if p.Name != "" {
			errs = append(errs, field.Forbidden(at.Child("selector"), both))
		}
	}
	if p.Name == "" && p.Selector == nil {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	if p.ParameterNotFoundAction == nil || *p.ParameterNotFoundAction == "" {
		return append(errs, field.Required(at.Child("parameterNotFoundAction"), ""))
	}
	return append(errs, supported(p.ParameterNotFoundAction, notFoundActions, at.Child("parameterNotFoundAction"))...)
}

var actions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny, admissionv1.Warn}

func validateActions(all []admissionv1.ValidationAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen check.Seen[admissionv1.ValidationAction]
	for i, a := range all {
		errs = append(errs, supported(&a, actions, at.Index(i))...)
		if seen.Again(a) {
			errs = append(errs, field.Duplicate(at.Index(i), a))
		}
	}
	if slices.Contains(all, admissionv1.Deny) && slices.Contains(all, admissionv1.Warn) {
		errs = append(errs, field.Invalid(at, all, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(all) == 0 {
		errs = append(errs, field.Required(at, "at least one validation action is required"))
	}
	return errs
}
