package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	operations = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update}
	scopes     = []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}
)

func validateRule(r *admissionv1.RuleWithOperations, at *field.Path) field.ErrorList {
	errs := listed(r.Operations, "operations", at.Child("operations"))
	for i, op := range r.Operations {
		errs = append(errs, supported(&op, operations, at.Child("operations").Index(i))...)
	}
	errs = append(errs, listed(r.APIGroups, "API groups", at.Child("apiGroups"))...)
	errs = append(errs, listed(r.APIVersions, "API versions", at.Child("apiVersions"))...)
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(r.Resources, at.Child("resources"))...)
	return append(errs, supported(r.Scope, scopes, at.Child("scope"))...)
}

// listed checks a list in which * means everything.
func listed[S ~string](all []S, what string, at *field.Path) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(all) > 1 && slices.Contains(all, "*") {
		return field.ErrorList{field.Invalid(at, all, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// validateResources checks the resources of a rule: pods, pods/status, pods/*, */scale, * and */*.
func validateResources(all []string, at *field.Path) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	every, everywhere := map[string]bool{}, map[string]bool{} // by resource, by subresource
	plain := false
	for i, r := range all {
		if r == "" {
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		}
		res, sub, ok := strings.Cut(r, "/")
		if !ok {
			plain = r != "*"
			continue
		}
		if every[res] {
			errs = append(errs, field.Invalid(at.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", res, r)))
		}
		if everywhere[sub] {
			errs = append(errs, field.Invalid(at.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		every[res] = every[res] || sub == "*"
		everywhere[sub] = everywhere[sub] || res == "*"
	}
	if len(all) > 1 && slices.Contains(all, "*/*") {
		errs = append(errs, field.Invalid(at, all, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(all, "*") {
		errs = append(errs, field.Invalid(at, all, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

func validateMatch(m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	}
	errs = append(errs, supported(m.MatchPolicy, matchPolicies, at.Child("matchPolicy"))...)
	if m.NamespaceSelector == nil {
		errs = append(errs, field.Required(at.Child("namespaceSelector"), ""))
	}
	errs = append(errs, validateSelector(m.NamespaceSelector, false, at.Child("namespaceSelector"))...)
	if m.ObjectSelector == nil {
		errs = append(errs, field.Required(at.Child("objectSelector"), ""))
	}
	errs = append(errs, validateSelector(m.ObjectSelector, false, at.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], at.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func validateNamedRule(r *admissionv1.NamedRuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen check.Seen[string]
	for i, name := range r.ResourceNames {
		at := at.Child("resourceNames").Index(i)
		errs = append(errs, check.Invalid(at, name, content.IsPathSegmentName(name))...)
		if seen.Again(name) {
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	return append(errs, validateRule(&r.RuleWithOperations, at)...)
}
