package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/patch"
	"github.com/minikctl/minikctl/pkg/objects"
	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// mutator is a compiled MutatingAdmissionPolicy.
type mutator struct {
	spec       *admissionv1.MutatingAdmissionPolicySpec
	conditions *match.Conditions
	compiler   *plugincel.CompositedCompiler // includes the variables
	mutations  []plugincel.MutatingEvaluator
	err        error // of compiling the policy as a whole
}

func newMutator(s shared, spec *admissionv1.MutatingAdmissionPolicySpec) *mutator {
	m := &mutator{spec: spec}
	c, vars, err := s.compiler()
	if err != nil {
		m.err = err
		return m
	}
	m.compiler = c
	m.conditions = match.CompileConditions(c, s.conditions, vars, s.failure)
	vars.HasPatchTypes = true
	for _, one := range spec.Mutations {
		e := &rows.Expression{}
		switch {
		case one.PatchType == admissionv1.PatchTypeJSONPatch && one.JSONPatch != nil:
			e.Source, e.Returns = one.JSONPatch.Expression, rows.Patches
		case one.ApplyConfiguration != nil:
			e.Source, e.Returns = one.ApplyConfiguration.Expression, rows.Object
		}
		m.mutations = append(m.mutations, c.CompileMutatingEvaluator(e, vars, environment.StoredExpressions))
	}
	return m
}

// run applies the policy's mutations in order. It continues after a mutation that fails.
func (m *mutator) run(ctx context.Context, q *match.Request, c *invocation, param objects.Object, ns *corev1.Namespace, auth authorizer.Authorizer) (changed bool, err error) {
	if m.err != nil {
		return false, m.err
	}
	var params runtime.Object // not a typed nil
	if param != nil {
		params = param
	}
	ctx = m.compiler.CreateContext(ctx)
	if c.seen, err = q.Versioned(c.version); err != nil {
		return false, err
	}
	ok, err := m.conditions.Hold(ctx, c.seen, c.version, params, auth)
	if err != nil || !ok {
		return false, err
	}
	inputs := plugincel.OptionalVariableBindings{VersionedParams: params, Authorizer: auth}
	var errs []error
	for i, e := range m.mutations {
		one, err := m.mutate(ctx, q, c, m.spec.Mutations[i].PatchType, func(ctx context.Context) (plugincel.EvaluationResult, error) {
			if broken := e.CompilationErrors(); len(broken) > 0 {
				return plugincel.EvaluationResult{}, errors.Join(broken...)
			}
			r, _, err := e.ForInput(ctx, c.seen, match.Admission(c.seen, c.version), inputs, ns, celconfig.RuntimeCELCostBudget)
			if err == nil {
				err = r.Error
			}
			return r, err
		})
		changed = changed || one
		if err != nil {
			errs = append(errs, err)
		}
	}
	return changed, errors.Join(errs...)
}

// mutate applies one mutation.
func (m *mutator) mutate(ctx context.Context, q *match.Request, c *invocation, kind admissionv1.PatchType, evaluate func(context.Context) (plugincel.EvaluationResult, error)) (bool, error) {
	var err error
	if c.seen, err = q.Versioned(c.version); err != nil {
		return false, err
	}
	r, err := evaluate(ctx)
	if err != nil {
		return false, err
	}
	var after []byte
	if kind == admissionv1.PatchTypeJSONPatch {
		after, err = patched(ctx, c.seen.VersionedObject, r)
	} else {
		after, err = merged(q, c.version, c.seen.VersionedObject, r)
	}
	if err != nil || after == nil {
		return false, err
	}
	return q.Replace(c.version, c.seen.VersionedObject, func(into runtime.Object) error {
		strict, err := kjson.UnmarshalStrict(after, into)
		return errors.Join(append(strict, err)...)
	})
}

// patched applies the JSON patch that an expression evaluates to. It returns nil if a test operation of it fails.
func patched(ctx context.Context, obj runtime.Object, r plugincel.EvaluationResult) ([]byte, error) {
	list, ok := r.EvalResult.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	var steps []map[string]any
	for it := list.Iterator(); it.HasNext() == types.True; {
		step, err := stepOf(it.Next())
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	text, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	operations, err := patch.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	before, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	after, err := patch.Apply(ctx, before, operations, patch.MaxCopied)
	if errors.Is(err, patch.ErrTestFailed) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	return after, nil
}

// stepOf returns an operation of a JSON patch.
func stepOf(v interface {
	ConvertToNative(reflect.Type) (any, error)
}) (map[string]any, error) {
	native, err := v.ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
	if err != nil {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
	}
	op, ok := native.(*mutation.JSONPatchVal)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", native)
	}
	step := map[string]any{"op": op.Op, "path": op.Path}
	if op.From != "" {
		step["from"] = op.From
	}
	if op.Val == nil {
		return step, nil
	}
	if obj, ok := op.Val.(*dynamic.ObjectVal); ok {
		if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	value, err := op.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		step["value"] = value
		_, err = json.Marshal(value)
	}
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	return step, nil
}
