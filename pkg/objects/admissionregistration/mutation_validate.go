package admissionregistration

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateMutatingPolicy(p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	s := &p.Spec
	l := tolerated{params: s.ParamKind != nil, work: check.NewWork()}
	if old != nil {
		l.conditions = equality.Semantic.DeepEqual(s.ParamKind, old.Spec.ParamKind) && equality.Semantic.DeepEqual(s.MatchConditions, old.Spec.MatchConditions)
		l.known = mutationsOf(&old.Spec)
	}
	shared := policy{failure: s.FailurePolicy, params: s.ParamKind, match: s.MatchConstraints, conditions: s.MatchConditions,
		variables: s.Variables, onlyMutable: true}
	c := shared.compiler()
	errs := append(validateMeta(p), shared.validate(c, l)...)
	at := check.Spec.Child("mutations")
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at, "mutations must contain at least one item"))
	}
	vars := shared.vars()
	vars.HasPatchTypes = true
	for i := range s.Mutations {
		errs = append(errs, validateMutation(c, &s.Mutations[i], vars, l, at.Index(i))...)
	}
	if s.ReinvocationPolicy == "" {
		return append(errs, field.Required(check.Spec.Child("reinvocationPolicy"), ""))
	}
	return append(errs, supported(&s.ReinvocationPolicy, reinvocations, check.Spec.Child("reinvocationPolicy"))...)
}

var mutableOperations = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update}

// mutable rejects rules for operations that cannot be mutated.
func mutable(m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	for i := range m.ResourceRules {
		for _, op := range m.ResourceRules[i].Operations {
			errs = append(errs, supported(&op, mutableOperations, at.Child("resourceRules", "operations"))...)
		}
	}
	return errs
}

// mutationsOf returns a function that reports whether the policy has an expression.
func mutationsOf(s *admissionv1.MutatingAdmissionPolicySpec) func(string) bool {
	known := map[string]bool{}
	for _, c := range s.MatchConditions {
		known[c.Expression] = true
	}
	for _, v := range s.Variables {
		known[v.Expression] = true
	}
	for _, m := range s.Mutations {
		if m.ApplyConfiguration != nil {
			known[m.ApplyConfiguration.Expression] = true
		}
		if m.JSONPatch != nil {
			known[m.JSONPatch.Expression] = true
		}
	}
	return func(e string) bool { return known[e] }
}

var patchTypes = []admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch}

func validateMutation(c plugincel.Compiler, m *admissionv1.Mutation, vars plugincel.OptionalVariableDeclarations, l tolerated, at *field.Path) field.ErrorList {
	if m.PatchType == "" {
		return field.ErrorList{field.Required(at.Child("patchType"), "")}
	}
	expression := func(source string, returns Returns, at *field.Path) field.ErrorList {
		if strings.TrimSpace(source) == "" {
			return field.ErrorList{field.Required(at, "")}
		}
		return compile(c, &Expression{Source: source, Returns: returns}, vars, l, at)
	}
	apply, patch := at.Child("applyConfiguration"), at.Child("jsonPatch")
	var errs field.ErrorList
	switch m.PatchType {
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = expression(m.ApplyConfiguration.Expression, Object, apply.Child("expression"))
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(patch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
		return errs
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = expression(m.JSONPatch.Expression, Patches, patch.Child("expression"))
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
		return errs
	}
	return supported(&m.PatchType, patchTypes, at.Child("patchType"))
}
