package match

import (
	"context"

	"github.com/google/cel-go/common/types"
	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// Conditions are the compiled match conditions of a webhook or policy.
type Conditions struct {
	evaluator plugincel.ConditionEvaluator
	ignore    bool // errors count as not matching
}

// CompileConditions compiles conditions. It returns nil without conditions.
func CompileConditions(c plugincel.ConditionCompiler, all []admissionv1.MatchCondition, vars plugincel.OptionalVariableDeclarations, failure *admissionv1.FailurePolicyType) *Conditions {
	if len(all) == 0 {
		return nil
	}
	return &Conditions{
		evaluator: c.CompileCondition(rows.Conditions(all), vars, environment.StoredExpressions),
		ignore:    failure != nil && *failure == admissionv1.Ignore,
	}
}

// Hold reports whether all conditions are true. If one is false, errors of others are ignored.
func (c *Conditions) Hold(ctx context.Context, v *admission.VersionedAttributes, at Version, params runtime.Object, auth authorizer.Authorizer) (bool, error) {
	if c == nil {
		return true, nil
	}
	request := Admission(v, at)
	results, _, err := c.evaluator.ForInput(ctx, v, request, plugincel.OptionalVariableBindings{VersionedParams: params, Authorizer: auth},
		nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		if c.ignore {
			return false, nil //nolint:nilerr // the failurePolicy is Ignore
		}
		return false, err
	}
	var errs []error
	for _, r := range results {
		if r.Error != nil {
			errs = append(errs, r.Error)
		}
		if r.EvalResult == types.False {
			return false, nil
		}
	}
	if len(errs) == 0 {
		return true, nil
	}
	if c.ignore {
		return false, nil
	}
	return false, utilerrors.NewAggregate(errs)
}

// Admission returns the AdmissionRequest that expressions see.
func Admission(v *admission.VersionedAttributes, at Version) *reviewv1.AdmissionRequest {
	return plugincel.CreateAdmissionRequest(v.Attributes, metav1.GroupVersionResource(at.Resource), metav1.GroupVersionKind(at.Kind))
}
