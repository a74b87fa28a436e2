package admissionregistration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/client-go/util/jsonpath"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

const (
	maxAnnotations     = 20
	maxAnnotationBytes = 5 << 10
)

// policy has the fields that both kinds of policies share.
type policy struct {
	failure    *admissionv1.FailurePolicyType
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable

	onlyMutable bool // rejects rules for DELETE
}

// compiler returns a compiler for a policy's expressions. A variable may refer to earlier ones.
func (p policy) compiler() plugincel.Compiler {
	if len(p.variables) > 0 {
		if c, err := plugincel.NewCompositedCompiler(Environment()); err == nil {
			return c
		}
	}
	return plain()
}

func (p policy) vars() plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{HasParams: p.params != nil, HasAuthorizer: true}
}

// validate checks the shared fields, in Kubernetes' order.
func (p policy) validate(c plugincel.Compiler, l tolerated) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec
	if p.failure == nil {
		errs = append(errs, field.Required(at.Child("failurePolicy"), ""))
	}
	errs = append(errs, supported(p.failure, failurePolicies, at.Child("failurePolicy"))...)
	if p.params != nil {
		errs = append(errs, validateParamKind(p.params, at.Child("paramKind"))...)
	}
	if p.match == nil {
		errs = append(errs, field.Required(at.Child("matchConstraints"), ""))
	} else {
		errs = append(errs, validateMatch(p.match, at.Child("matchConstraints"))...)
		if len(p.match.ResourceRules) == 0 {
			errs = append(errs, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
		}
		if p.onlyMutable {
			errs = append(errs, mutable(p.match, at.Child("matchConstraints"))...)
		}
	}
	if !l.conditions {
		errs = append(errs, validateConditions(p.conditions, l, at.Child("matchConditions"))...)
	}
	for i := range p.variables {
		errs = append(errs, p.variable(c, &p.variables[i], l, at.Child("variables").Index(i))...)
	}
	return errs
}

var identifier = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
})

var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
	"loop", "package", "namespace", "return", "var", "void", "while"}

func (p policy) variable(c plugincel.Compiler, v *admissionv1.Variable, l tolerated, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.TrimSpace(v.Name) == "":
		errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
	case !identifier().MatchString(v.Name) || slices.Contains(reserved, v.Name):
		errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
	}
	if strings.TrimSpace(v.Expression) == "" {
		return append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	}
	composed, ok := c.(*plugincel.CompositedCompiler)
	if !ok {
		return append(errs, field.InternalError(at, fmt.Errorf("variable composition is not allowed")))
	}
	if ok, tooMuch := l.work.Compile(v.Expression, at.Child("expression")); !ok {
		return append(errs, tooMuch...)
	}
	result := composed.CompileAndStoreVariable(&Expression{Name: v.Name, Source: v.Expression, Returns: Anything}, p.vars(), l.mode(v.Expression))
	if result.Error != nil {
		errs = append(errs, celError(result.Error, v.Expression, at.Child("expression")))
	}
	return errs
}

func validateParamKind(k *admissionv1.ParamKind, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	version := at.Child("apiVersion")
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(version, ""))
	case err != nil:
		errs = append(errs, field.Invalid(version, k.APIVersion, err.Error()))
	default:
		if wrong := utilvalidation.IsDNS1123Subdomain(gv.Group); gv.Group != "" && len(wrong) > 0 {
			errs = append(errs, field.Invalid(version, gv.Group, strings.Join(wrong, ",")))
		}
		if gv.Version == "" {
			errs = append(errs, field.Invalid(version, k.APIVersion, "version must be specified"))
		} else if wrong := utilvalidation.IsDNS1035Label(gv.Version); len(wrong) > 0 {
			errs = append(errs, field.Invalid(version, gv.Version, strings.Join(wrong, ",")))
		}
	}
	if k.Kind == "" {
		return append(errs, field.Required(at.Child("kind"), ""))
	}
	if wrong := utilvalidation.IsDNS1035Label(strings.ToLower(k.Kind)); len(wrong) > 0 {
		errs = append(errs, field.Invalid(at.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(wrong, ",")))
	}
	return errs
}

func validateValidatingPolicy(p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	l := tolerated{params: p.Spec.ParamKind != nil, work: check.NewWork()}
	if old != nil {
		l.conditions = equality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) && equality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions)
		l.known = expressionsOf(&old.Spec)
	}
	s := &p.Spec
	shared := policy{failure: s.FailurePolicy, params: s.ParamKind, match: s.MatchConstraints, conditions: s.MatchConditions, variables: s.Variables}
	c := shared.compiler()
	errs := append(validateMeta(p), shared.validate(c, l)...)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const none = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(check.Spec.Child("validations"), none), field.Required(check.Spec.Child("auditAnnotations"), none))
	}
	for i := range s.Validations {
		errs = append(errs, validateValidation(c, &s.Validations[i], shared.vars(), l, check.Spec.Child("validations").Index(i))...)
	}
	at := check.Spec.Child("auditAnnotations")
	if len(s.AuditAnnotations) > maxAnnotations {
		errs = append(errs, field.Invalid(at, s.AuditAnnotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAnnotations)))
	}
	seen := map[string]bool{}
	for i := range s.AuditAnnotations {
		a := &s.AuditAnnotations[i]
		errs = append(errs, validateAnnotation(c, p.Name, a, shared.vars(), l, at.Index(i))...)
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("key"), a.Key))
		}
		seen[a.Key] = true
	}
	return errs
}

// expressionsOf returns a function that reports whether the policy has an expression.
func expressionsOf(s *admissionv1.ValidatingAdmissionPolicySpec) func(string) bool {
	known := map[string]bool{}
	for _, c := range s.MatchConditions {
		known[c.Expression] = true
	}
	for _, v := range s.Variables {
		known[v.Expression] = true
	}
	for _, v := range s.Validations {
		known[v.Expression], known[v.MessageExpression] = true, true
	}
	for _, a := range s.AuditAnnotations {
		known[a.ValueExpression] = true
	}
	return func(e string) bool { return known[e] }
}

var reasons = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge}

func validateValidation(c plugincel.Compiler, v *admissionv1.Validation, vars plugincel.OptionalVariableDeclarations, l tolerated, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compile(c, &Expression{Source: v.Expression, Returns: Bool}, vars, l, at.Child("expression"))...)
	}
	if m := v.MessageExpression; m != "" && strings.TrimSpace(m) == "" {
		errs = append(errs, field.Invalid(at.Child("messageExpression"), m, "must be non-empty if specified"))
	} else if m != "" {
		vars.HasAuthorizer = false
		errs = append(errs, compile(c, &Expression{Source: m, Returns: Text}, vars, l, at.Child("messageExpression"))...)
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "message must be non-empty if specified"))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "message must not contain line breaks"))
	}
	return append(errs, supported(v.Reason, reasons, at.Child("reason"))...)
}

func validateAnnotation(c plugincel.Compiler, policy string, a *admissionv1.AuditAnnotation, vars plugincel.OptionalVariableDeclarations, l tolerated, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
	} else {
		errs = append(errs, check.Qualified(policy+"/"+a.Key, at.Child("key"))...)
	}
	value, at := strings.TrimSpace(a.ValueExpression), at.Child("valueExpression")
	switch {
	case value == "":
		return append(errs, field.Required(at, "valueExpression is not specified"))
	case len(value) > maxAnnotationBytes:
		return append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationBytes)))
	}
	if ok, tooMuch := l.work.Compile(value, at); !ok {
		return append(errs, tooMuch...)
	}
	result := c.CompileCELExpression(&Expression{Name: a.Key, Source: value, Returns: Annotation}, vars, l.mode(a.ValueExpression))
	if result.Error != nil {
		errs = append(errs, celError(result.Error, a.ValueExpression, at))
	}
	return errs
}

func validateValidatingStatus(p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	var errs field.ErrorList
	if t := p.Status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			at := check.Status.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, validateFieldRef(strings.TrimSpace(w.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(errs, metav1validation.ValidateConditions(p.Status.Conditions, check.Status.Child("conditions"))...)
}

func validateFieldRef(ref string, at *field.Path) field.ErrorList {
	if ref == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		return field.ErrorList{field.Invalid(at, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
