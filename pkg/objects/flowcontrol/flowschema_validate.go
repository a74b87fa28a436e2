package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateSchema(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	errs := check.Meta(s, false, validation.NameIsDNSSubdomain)
	errs = append(errs, validateSchemaSpec(s.Name, &s.Spec)...)
	if fixed := mandatorySchema(s.Name); fixed != nil && !equality.Semantic.DeepEqual(s.Spec, fixed.Spec) {
		errs = append(errs, field.Invalid(check.Spec, check.Shown(s.Spec), fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
	}
	return append(errs, validateSchemaStatus(s, nil)...)
}

func validateSchemaSpec(name string, spec *flowcontrolv1.FlowSchemaSpec) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec.Child("matchingPrecedence")
	switch p := spec.MatchingPrecedence; {
	case p <= 0:
		errs = append(errs, field.Invalid(at, p, "must be a positive value"))
	case p > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		errs = append(errs, field.Invalid(at, p, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	case p == 1 && name != "exempt":
		errs = append(errs, field.Invalid(at, p, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if d := spec.DistinguisherMethod; d != nil && d.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType && d.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported[flowcontrolv1.FlowDistinguisherMethodType](check.Spec.Child("distinguisherMethod", "type"), check.Shown(d),
			[]flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}))
	}
	at = check.Spec.Child("priorityLevelConfiguration", "name")
	if level := spec.PriorityLevelConfiguration.Name; level == "" {
		errs = append(errs, field.Required(at, "must reference a priority level"))
	} else {
		errs = append(errs, check.Invalid(at, level, validation.NameIsDNSSubdomain(level, false))...)
	}
	for i := range spec.Rules {
		errs = append(errs, validateRules(&spec.Rules[i], check.Spec.Child("rules").Index(i))...)
	}
	return errs
}

func validateRules(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], at.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validatePathRule(&r.NonResourceRules[i], at.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

func validateSubject(s *flowcontrolv1.Subject, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		errs = validateAccount(s.ServiceAccount, at.Child("serviceAccount"))
	case flowcontrolv1.SubjectKindUser:
		errs = validateNamed(s.User != nil, func() string { return s.User.Name }, "User", at.Child("user"))
	case flowcontrolv1.SubjectKindGroup:
		errs = validateNamed(s.Group != nil, func() string { return s.Group.Name }, "Group", at.Child("group"))
	default:
		return field.ErrorList{field.NotSupported(at.Child("kind"), s.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
		})}
	}
	for _, other := range []struct {
		kind  flowcontrolv1.SubjectKind
		field string
		there bool
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil},
	} {
		if other.there && other.kind != s.Kind {
			errs = append(errs, field.Forbidden(at.Child(other.field), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", other.field, other.kind)))
		}
	}
	return errs
}

func validateNamed(there bool, name func() string, kind string, at *field.Path) field.ErrorList {
	switch {
	case !there:
		return field.ErrorList{field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", strings.ToLower(kind), kind))}
	case name() == "":
		return field.ErrorList{field.Required(at.Child("name"), "")}
	}
	return nil
}

func validateAccount(a *flowcontrolv1.ServiceAccountSubject, at *field.Path) field.ErrorList {
	if a == nil {
		return field.ErrorList{field.Required(at, "serviceAccount is required when subject kind is 'ServiceAccount'")}
	}
	var errs field.ErrorList
	switch a.Name {
	case "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case flowcontrolv1.NameAll:
	default:
		errs = append(errs, check.Invalid(at.Child("name"), a.Name, validation.ValidateServiceAccountName(a.Name, false))...)
	}
	if a.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, check.Invalid(at.Child("namespace"), a.Namespace, validation.ValidateNamespaceName(a.Namespace, false))...)
}

// verbs are the verbs that a rule may list, in the order of error messages.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateVerbs(all []string, at *field.Path) field.ErrorList {
	if errs := validateList(all, at, "verbs must contain at least one value", "verbs"); errs != nil || slices.Contains(all, "*") {
		return errs
	}
	for _, v := range all {
		if !slices.Contains(verbs, v) {
			return field.ErrorList{field.NotSupported(at, all, verbs)}
		}
	}
	return nil
}

// validateList checks that a list is not empty, and has no other element beside "*".
func validateList(all []string, at *field.Path, empty, what string) field.ErrorList {
	switch {
	case len(all) == 0:
		return field.ErrorList{field.Required(at, empty)}
	case len(all) > 1 && slices.Contains(all, "*"):
		return field.ErrorList{field.Invalid(at, all, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, at.Child("verbs"))
	errs = append(errs, validateList(r.APIGroups, at.Child("apiGroups"), "resource rules must supply at least one api group", "api groups")...)
	errs = append(errs, validateList(r.Resources, at.Child("resources"), "resource rules must supply at least one resource", "resources")...)
	at = at.Child("namespaces")
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return errs
	}
	wrong := validateList(r.Namespaces, at, "resource rules that are not cluster scoped must supply at least one namespace", "namespaces")
	errs = append(errs, wrong...)
	if wrong != nil || slices.Contains(r.Namespaces, "*") {
		return errs
	}
	for i, ns := range r.Namespaces {
		for _, msg := range validation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(at.Index(i), ns, "each member of this list must be '*' or a DNS-1123 label; "+msg))
		}
	}
	return errs
}

func validatePathRule(r *flowcontrolv1.NonResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, at.Child("verbs"))
	at = at.Child("nonResourceURLs")
	wrong := validateList(r.NonResourceURLs, at, "nonResourceURLs must contain at least one value", "non-resource URLs")
	errs = append(errs, wrong...)
	if wrong != nil || slices.Contains(r.NonResourceURLs, "*") {
		return errs
	}
	for i, path := range r.NonResourceURLs {
		if why := badPath(path); why != "" {
			errs = append(errs, field.Invalid(at.Index(i), path, why))
		}
	}
	return errs
}

// badPath returns what is wrong with a path, which may end with "/*"; "" if it is valid.
func badPath(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path == "/":
		return ""
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1, stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
