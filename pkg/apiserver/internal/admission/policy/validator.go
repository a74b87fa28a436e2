package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/objects"
	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// validator is a compiled ValidatingAdmissionPolicy.
type validator struct {
	spec                          *admissionv1.ValidatingAdmissionPolicySpec
	ignore                        bool // errors count as not matching
	conditions                    *match.Conditions
	validations, messages, audits plugincel.ConditionEvaluator
	err                           error // of compiling the policy as a whole
}

// failure is a validation that is false.
type failure struct {
	message string
	reason  metav1.StatusReason
}

// outcome is the result of a policy with one parameter.
type outcome struct {
	failures    []*failure // by validation; nil: it is true
	annotations map[string]string
	errs        []string // errors of annotations
}

func newValidator(s shared, spec *admissionv1.ValidatingAdmissionPolicySpec) *validator {
	v := &validator{spec: spec, ignore: s.failure != nil && *s.failure == admissionv1.Ignore}
	c, vars, err := s.compiler()
	if err != nil {
		v.err = err
		return v
	}
	plain := vars
	plain.HasAuthorizer = false
	v.conditions = match.CompileConditions(c, s.conditions, vars, s.failure)
	validations := make([]plugincel.ExpressionAccessor, len(spec.Validations))
	messages := make([]plugincel.ExpressionAccessor, len(spec.Validations))
	for i, one := range spec.Validations {
		validations[i] = &rows.Expression{Source: one.Expression, Returns: rows.Bool}
		if one.MessageExpression != "" {
			messages[i] = &rows.Expression{Source: one.MessageExpression, Returns: rows.Text}
		}
	}
	audits := make([]plugincel.ExpressionAccessor, len(spec.AuditAnnotations))
	for i, one := range spec.AuditAnnotations {
		audits[i] = &rows.Expression{Name: one.Key, Source: one.ValueExpression, Returns: rows.Annotation}
	}
	v.validations = c.CompileCondition(validations, vars, environment.StoredExpressions)
	v.messages = c.CompileCondition(messages, plain, environment.StoredExpressions)
	v.audits = c.CompileCondition(audits, vars, environment.StoredExpressions)
	return v
}

// failed is the outcome of an evaluation that failed with err.
func (v *validator) failed(err error) outcome {
	if v.ignore {
		return outcome{}
	}
	return outcome{failures: []*failure{{message: err.Error()}}}
}

// run evaluates the policy for a request.
func (v *validator) run(ctx context.Context, c *invocation, param objects.Object, ns *corev1.Namespace, auth authorizer.Authorizer) outcome {
	if v.err != nil {
		return v.failed(v.err)
	}
	var params runtime.Object // not a typed nil
	if param != nil {
		params = param
	}
	ok, err := v.conditions.Hold(ctx, c.seen, c.version, params, auth)
	if err != nil {
		return v.failed(err)
	}
	if !ok {
		return outcome{}
	}
	request := match.Admission(c.seen, c.version)
	inputs := plugincel.OptionalVariableBindings{VersionedParams: params, Authorizer: auth}
	results, left, err := v.validations.ForInput(ctx, c.seen, request, inputs, ns, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return v.failed(err)
	}
	messages, _, messageErr := v.messages.ForInput(ctx, c.seen, request, plugincel.OptionalVariableBindings{VersionedParams: params}, ns, left)
	out := outcome{failures: make([]*failure, len(results)), annotations: map[string]string{}}
	for i, r := range results {
		var message *plugincel.EvaluationResult
		if i < len(messages) {
			message = &messages[i]
		}
		out.failures[i] = v.check(&v.spec.Validations[i], r, message, messageErr)
	}
	audits, _, err := v.audits.ForInput(ctx, c.seen, request, inputs, ns, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return v.failed(err)
	}
	for i, r := range audits {
		v.annotate(&v.spec.AuditAnnotations[i], r, &out)
	}
	return out
}

// check returns the failure of a validation, or nil if it is true.
func (v *validator) check(one *admissionv1.Validation, r plugincel.EvaluationResult, message *plugincel.EvaluationResult, messageErr error) *failure {
	switch {
	case r.Error != nil && v.ignore:
		return nil
	case r.Error != nil:
		return &failure{message: r.Error.Error()}
	case errors.Is(messageErr, apicel.ErrInternal) || errors.Is(messageErr, apicel.ErrOutOfBudget):
		if v.ignore {
			return nil
		}
		return &failure{message: fmt.Sprintf("failed messageExpression: %s", messageErr)}
	case r.EvalResult == types.True:
		return nil
	}
	f := &failure{reason: metav1.StatusReasonInvalid}
	if one.Reason != nil {
		f.reason = *one.Reason
	}
	if message != nil && message.Error == nil && message.EvalResult != nil {
		text, _ := message.EvalResult.Value().(string)
		if text = strings.TrimSpace(text); len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			f.message = text
		}
	}
	if f.message == "" {
		f.message = strings.TrimSpace(one.Message)
	}
	if f.message == "" {
		f.message = "failed expression: " + strings.TrimSpace(one.Expression)
	}
	return f
}

// annotate adds the value of an audit annotation to the outcome.
func (v *validator) annotate(one *admissionv1.AuditAnnotation, r plugincel.EvaluationResult, out *outcome) {
	switch {
	case r.Error != nil:
		if !v.ignore {
			out.errs = append(out.errs, r.Error.Error())
		}
	case r.EvalResult.Type() == types.StringType:
		text, _ := r.EvalResult.Value().(string)
		if text = strings.TrimSpace(text); text != "" {
			out.annotations[one.Key] = text
		}
	case r.EvalResult.Type() != types.NullType:
		out.errs = append(out.errs, fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. "+
			"Return type must be either string or null.", one.ValueExpression, r.EvalResult.Type()))
	}
}
