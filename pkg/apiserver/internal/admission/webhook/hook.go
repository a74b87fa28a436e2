// Package webhook calls admission webhooks: it matches them to a request, sends AdmissionReviews and applies the responses. Mutating
// webhooks are called in order, each with the changes of the earlier ones; validating webhooks are called concurrently.
//
// The configurations are compiled when they change, and their conditions when a request first matches them. Without any
// configuration a request costs one read of a counter.
package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/hookclient"
	"github.com/minikctl/minikctl/pkg/objects"
	rows "github.com/minikctl/minikctl/pkg/objects/admissionregistration"
)

// Hook is a webhook with its compiled configuration.
type Hook struct {
	admissionv1.MutatingWebhook // a ValidatingWebhook has the same fields except reinvocationPolicy
	Configuration               string
	ID                          string // unique

	criteria   *match.Criteria
	conditions func() *match.Conditions
	client     *hookclient.Client
}

// Hooks are the webhooks of one kind in the order of calls: by the names of their configurations.
type Hooks []*Hook

// Compile returns the webhooks of the configurations.
func (c *Clients) Compile(all []objects.Object) Hooks {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := clients{}
	defer func() { c.keep(used) }()
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b objects.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	var hooks Hooks
	for _, obj := range all {
		var list []admissionv1.MutatingWebhook
		switch o := obj.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			list = o.Webhooks
		case *admissionv1.ValidatingWebhookConfiguration:
			list = rows.AsMutating(o)
		}
		times := map[string]int{}
		for i := range list {
			w := list[i]
			hooks = append(hooks, &Hook{
				MutatingWebhook: w, Configuration: obj.GetName(), ID: fmt.Sprintf("%s/%s/%d", obj.GetName(), w.Name, times[w.Name]),
				criteria: match.ForWebhook(w.Rules, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector),
				client:   c.client(w.ClientConfig, used),
				conditions: sync.OnceValue(func() *match.Conditions {
					if len(w.MatchConditions) == 0 {
						return nil
					}
					return match.CompileConditions(compiler(), w.MatchConditions, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, w.FailurePolicy)
				}),
			})
			times[w.Name]++
		}
	}
	return hooks
}

// compiler compiles the conditions of all webhooks.
var compiler = sync.OnceValue(func() plugincel.ConditionCompiler { return plugincel.NewConditionCompiler(rows.Environment()) })

// matches reports whether the rules, selectors and conditions match a request, and in which version.
func (h *Hook) matches(ctx context.Context, q *match.Request, auth authorizer.Authorizer) (match.Version, bool, error) {
	v, ok, err := h.criteria.Match(ctx, q)
	if err != nil || !ok || len(h.MatchConditions) == 0 {
		return v, ok, err
	}
	versioned, err := q.Versioned(v)
	if err != nil {
		return v, false, err
	}
	ok, err = h.conditions().Hold(ctx, versioned, v, nil, auth)
	if err != nil {
		a := q.Admission()
		return v, false, apierrors.NewForbidden(a.GVR.GroupResource(), a.Name, err)
	}
	return v, ok, nil
}

// ignores reports whether the failurePolicy is Ignore.
func (h *Hook) ignores() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionv1.Ignore
}

// callError is the error of a call that failed.
type callError struct {
	name string
	err  error
}

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.name, e.err)
}
func (e *callError) Unwrap() error { return e.err }

// dryRun returns an error for a dry run unless the webhook declares no side effects.
func (h *Hook) dryRun() error {
	if h.SideEffects == nil {
		return &callError{h.Name, fmt.Errorf("Webhook SideEffects is nil")} //nolint:staticcheck // Kubernetes' words
	}
	if *h.SideEffects == admissionv1.SideEffectClassNone || *h.SideEffects == admissionv1.SideEffectClassNoneOnDryRun {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.Name))
}
