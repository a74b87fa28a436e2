package policy

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Mutating applies MutatingAdmissionPolicies.
type Mutating struct{ Config }

const mutatingName = "MutatingAdmissionPolicy"

// Name returns the plugin's name.
func (Mutating) Name() string { return mutatingName }

// Mutate evaluates the matching policies in order. Each receives the object with the changes of the earlier ones.
func (p Mutating) Mutate(ctx context.Context, a *stage.Admission) error {
	policies, err := p.Policies(ctx)
	if err != nil || len(policies) == 0 || a.Object == nil {
		return err
	}
	q := match.NewRequest(a, p.Reader)
	all, err := p.invocations(ctx, q)
	if err != nil || len(all) == 0 {
		return err
	}
	r := match.RoundsOf(a, mutatingName)
	var failures []string
	for i := range all {
		failed, err := p.evaluate(ctx, q, &all[i], r)
		if err != nil {
			return err
		}
		if failed != nil && !all[i].policy.ignores() {
			failures = append(failures, all[i].errorText(failed))
		}
	}
	r.End()
	if len(failures) == 0 {
		return nil
	}
	refusal := q.Forbidden(errors.New("admission request denied by policy"))
	refusal.ErrStatus.Message = failures[0]
	refusal.ErrStatus.Reason = metav1.StatusReasonInvalid
	for _, f := range failures {
		refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Message: f})
	}
	return refusal
}

// errorText formats the error with which a policy rejects a request.
func (c *invocation) errorText(err error) string {
	if c.binding == nil {
		return fmt.Sprintf("policy %q denied request: %v", c.policy.Name, err)
	}
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", c.policy.Name, c.binding.Name, err)
}

// evaluate applies a policy by a binding, once for each parameter. The failurePolicy decides about failed; err rejects
// the request.
func (p Mutating) evaluate(ctx context.Context, q *match.Request, c *invocation, r *match.Rounds) (failed, err error) {
	if c.failed != nil {
		return errors.New(c.failure()), nil
	}
	ns, err := namespace(ctx, q)
	if err != nil {
		return nil, err
	}
	m := c.policy.mutate()
	for _, param := range c.params {
		id := c.id(param)
		if r.Skips(id) {
			continue
		}
		changed, err := m.run(ctx, q, c, param, ns, p.Authorizer)
		if status := new(apierrors.StatusError); errors.As(err, &status) {
			return nil, err
		}
		if err != nil {
			failed = errors.Join(failed, err)
		}
		r.Done(id, changed, m.spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy)
	}
	return failed, nil
}

// id identifies an evaluation: policy, binding and parameter.
func (c *invocation) id(param objects.Object) string {
	if param == nil {
		return c.policy.Name + "/" + c.binding.Name
	}
	return c.policy.Name + "/" + c.binding.Name + "/" + param.GetNamespace() + "/" + param.GetName()
}
