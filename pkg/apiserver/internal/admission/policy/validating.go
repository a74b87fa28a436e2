package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Validating enforces ValidatingAdmissionPolicies.
type Validating struct{ Config }

// Name returns the plugin's name.
func (Validating) Name() string { return "ValidatingAdmissionPolicy" }

// denial is a reason for which a request is rejected.
type denial struct {
	message string
	reason  metav1.StatusReason
}

// Validate evaluates all matching policies. The first denial in order is the error.
func (p Validating) Validate(ctx context.Context, a *stage.Admission) error {
	policies, err := p.Policies(ctx)
	if err != nil || len(policies) == 0 {
		return err
	}
	q := match.NewRequest(a, p.Reader)
	all, err := p.invocations(ctx, q)
	if err != nil || len(all) == 0 {
		return err
	}
	var denials []denial
	notes := annotations{}
	for i := range all {
		denied, err := p.evaluate(ctx, q, &all[i], notes)
		if err != nil {
			return err
		}
		denials = append(denials, denied...)
	}
	for _, key := range slices.Sorted(maps.Keys(notes)) {
		a.Annotate(key, strings.Join(notes[key], ", "))
	}
	if len(denials) == 0 {
		return nil
	}
	d := denials[0]
	refusal := q.Forbidden(errors.New(d.message))
	refusal.ErrStatus.Reason, refusal.ErrStatus.Code = d.reason, codeOf(d.reason)
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Message: d.message})
	return refusal
}

func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// annotations are audit annotations by key. All different values of a key are recorded.
type annotations map[string][]string

func (n annotations) add(key, value string) {
	const longest = 10 << 10
	value = value[:min(len(value), longest)]
	if !slices.Contains(n[key], value) {
		n[key] = append(n[key], value)
	}
}

// evaluate evaluates a policy by a binding, once for each parameter.
func (p Validating) evaluate(ctx context.Context, q *match.Request, c *invocation, notes annotations) ([]denial, error) {
	by := fmt.Sprintf("ValidatingAdmissionPolicy '%s'", c.policy.Name)
	if c.binding != nil {
		by += fmt.Sprintf(" with binding '%s'", c.binding.Name)
	}
	if c.failed == nil && len(c.params) > 0 {
		c.seen, c.failed = q.Versioned(c.version)
		if c.failed != nil {
			c.failed = fmt.Errorf("failed to convert object version: %w", c.failed)
		}
	}
	if c.failed != nil {
		if c.policy.ignores() {
			return nil, nil
		}
		return []denial{{by + " denied request: " + c.failure(), metav1.StatusReasonInvalid}}, nil
	}
	ns, err := namespace(ctx, q)
	if err != nil {
		return nil, err
	}
	var out []denial
	for _, param := range c.params {
		result := c.policy.validate().run(ctx, c, param, ns, p.Authorizer)
		for i, f := range result.failures {
			if f == nil {
				continue
			}
			out = append(out, p.act(q, c, i, *f, by)...)
		}
		for key, value := range result.annotations {
			notes.add(c.policy.Name+"/"+key, value)
		}
		for _, err := range result.errs { // errors of annotations reject the request regardless of the binding
			out = append(out, denial{by + " denied request: " + err, metav1.StatusReasonInvalid})
		}
	}
	return out, nil
}

// act applies a binding's validationActions to a failed validation.
func (p Validating) act(q *match.Request, c *invocation, index int, f failure, by string) []denial {
	var out []denial
	for _, action := range c.binding.actions {
		switch action {
		case admissionv1.Deny:
			reason := f.reason
			if reason == "" {
				reason = metav1.StatusReasonInvalid
			}
			out = append(out, denial{by + " denied request: " + f.message, reason})
		case admissionv1.Warn:
			q.Admission().Warn(fmt.Sprintf("Validation failed for %s: %s", by, f.message))
		case admissionv1.Audit:
			note, err := json.Marshal([]audited{{f.message, c.policy.Name, c.binding.Name, index, c.binding.actions}})
			if err == nil {
				q.Admission().Annotate("validation.policy.admission.k8s.io/validation_failure", string(note))
			}
		}
	}
	return out
}

// audited is the audit annotation of a failed validation.
type audited struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}
