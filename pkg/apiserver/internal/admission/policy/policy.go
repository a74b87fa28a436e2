// Package policy evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies: it matches policies, bindings and
// parameters to a request, evaluates their expressions and applies the results. A policy is compiled when a request first
// matches it after a change.
package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// FindKind returns the resource and version of a kind; nil if it is not served.
type FindKind func(kind schema.GroupVersionKind) (*objects.Resource, *objects.VersionOf)

// Config holds the dependencies of both plugins.
type Config struct {
	Reader     stage.Reader
	Authorizer authorizer.Authorizer
	Find       FindKind
	Policies   func(ctx context.Context) (Policies, error)
	Bindings   func(ctx context.Context) (Bindings, error)
}

// Policies are the policies of one kind, sorted by name.
type Policies []*Policy

// Policy is a policy of either kind.
type Policy struct {
	Name     string
	spec     shared
	criteria *match.Criteria
	validate func() *validator // for a ValidatingAdmissionPolicy
	mutate   func() *mutator   // for a MutatingAdmissionPolicy
}

// shared has the fields that both kinds of policies have.
type shared struct {
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable
	failure    *admissionv1.FailurePolicyType
}

// Bindings are the bindings of each policy by its name, sorted by the binding's name.
type Bindings map[string][]*Binding

// Binding is a binding of either kind.
type Binding struct {
	Name     string
	params   *admissionv1.ParamRef
	criteria *match.Criteria
	actions  []admissionv1.ValidationAction
}

// Compile returns the policies of objects of either kind.
func Compile(all []objects.Object) Policies {
	var out Policies
	for _, obj := range all {
		p := &Policy{Name: obj.GetName()}
		switch o := obj.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			s := &o.Spec
			p.spec = shared{s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, s.FailurePolicy}
			p.validate = sync.OnceValue(func() *validator { return newValidator(p.spec, s) })
		case *admissionv1.MutatingAdmissionPolicy:
			s := &o.Spec
			p.spec = shared{s.ParamKind, s.MatchConstraints, s.MatchConditions, s.Variables, s.FailurePolicy}
			p.mutate = sync.OnceValue(func() *mutator { return newMutator(p.spec, s) })
		default:
			continue
		}
		p.criteria = match.NewCriteria(p.spec.match)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// CompileBindings returns the bindings of objects of either kind.
func CompileBindings(all []objects.Object) Bindings {
	out := Bindings{}
	for _, obj := range all {
		switch o := obj.(type) {
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			out[o.Spec.PolicyName] = append(out[o.Spec.PolicyName],
				&Binding{Name: o.Name, params: o.Spec.ParamRef, criteria: match.NewCriteria(o.Spec.MatchResources), actions: o.Spec.ValidationActions})
		case *admissionv1.MutatingAdmissionPolicyBinding:
			out[o.Spec.PolicyName] = append(out[o.Spec.PolicyName],
				&Binding{Name: o.Name, params: o.Spec.ParamRef, criteria: match.NewCriteria(o.Spec.MatchResources)})
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *Binding) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// ignores reports whether the policy's failurePolicy is Ignore.
func (p *Policy) ignores() bool {
	return p.spec.failure != nil && *p.spec.failure == admissionv1.Ignore
}

// compiler returns a compiler for a policy's expressions, with its variables declared.
func (s shared) compiler() (*plugincel.CompositedCompiler, plugincel.OptionalVariableDeclarations, error) {
	vars := plugincel.OptionalVariableDeclarations{HasParams: s.params != nil, HasAuthorizer: true}
	c, err := plugincel.NewCompositedCompiler(rows.Environment())
	if err != nil {
		return nil, vars, err
	}
	for _, v := range s.variables {
		c.CompileAndStoreVariable(&rows.Expression{Name: v.Name, Source: v.Expression, Returns: rows.Anything}, vars, environment.StoredExpressions)
	}
	return c, vars, nil
}

// invocation is a policy and binding that match a request, with their parameters. If err is set, they cannot be
// evaluated.
type invocation struct {
	policy  *Policy
	binding *Binding // nil: the error is of the policy itself
	version match.Version
	seen    *admission.VersionedAttributes
	params  []objects.Object // a nil element: an evaluation without parameter
	failed  error
}

// invocations returns the policies and bindings that match a request.
func (c Config) invocations(ctx context.Context, q *match.Request) ([]invocation, error) {
	policies, err := c.Policies(ctx)
	if err != nil || len(policies) == 0 {
		return nil, err
	}
	bindings, err := c.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	var out []invocation
	for _, p := range policies {
		if len(bindings[p.Name]) == 0 {
			continue
		}
		v, ok, err := p.criteria.Match(ctx, q)
		if err != nil {
			out = append(out, invocation{policy: p, failed: err})
		}
		if !ok || err != nil {
			continue
		}
		kind, err := c.kind(p)
		if err != nil {
			out = append(out, invocation{policy: p, failed: err})
			continue
		}
		for _, b := range bindings[p.Name] {
			if one, ok := c.bound(ctx, q, p, b, kind); ok {
				one.version = v
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// bound returns the invocation of a policy by one of its bindings; ok is false if the binding does not match.
func (c Config) bound(ctx context.Context, q *match.Request, p *Policy, b *Binding, kind paramKind) (invocation, bool) {
	ok, err := b.criteria.MatchAll(ctx, q)
	if err == nil && !ok {
		return invocation{}, false
	}
	one := invocation{policy: p, binding: b, failed: err}
	if err == nil {
		one.params, one.failed = c.parameters(ctx, kind, b.params, q.Admission().Namespace)
	}
	return one, true
}

// failure formats the reason why a policy cannot be evaluated.
func (c *invocation) failure() string {
	if c.binding == nil {
		return fmt.Sprintf("failed to configure policy: %v", c.failed)
	}
	return fmt.Sprintf("failed to configure binding: %v", c.failed)
}

// namespace returns the namespaceObject of expressions.
func namespace(ctx context.Context, q *match.Request) (*corev1.Namespace, error) {
	if _, ok := q.Admission().Object.(*corev1.Namespace); ok || q.Requested.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		return nil, nil
	}
	ns, err := q.Namespace(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, err
		}
		return nil, apierrors.NewInternalError(err)
	}
	return plugincel.CreateNamespaceObject(ns), nil
}
