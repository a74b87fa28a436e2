// Package webhook owns the webhooks that are asked about writes: which are concerned by a request, the reviews that they are
// sent, and what becomes of their answers. Mutating ones are asked one after the other, each seeing what those before have
// made; validating ones all at once.
//
// The configurations are compiled when they change, and their conditions when a request first meets them. Without any
// configuration a request costs one look at a counter.
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

// Hook is one webhook, with its configuration compiled.
type Hook struct {
	admissionv1.MutatingWebhook // a validating one has all but its reinvocationPolicy
	Configuration               string
	ID                          string // unlike any other's

	criteria   *match.Criteria
	conditions func() *match.Conditions
	client     *hookclient.Client
}

// Hooks are the webhooks of one kind, in the order in which they are asked: by the names of their configurations.
type Hooks []*Hook

// Compile returns the webhooks of all configurations.
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

// matches reports whether a webhook wants to see a request, and in which version.
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

// ignores reports whether a webhook that cannot be asked is done without.
func (h *Hook) ignores() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionv1.Ignore
}

// callError is why a webhook could not be asked.
type callError struct {
	name string
	err  error
}

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.name, e.err)
}
func (e *callError) Unwrap() error { return e.err }

// dryRun refuses a dry run that a webhook would not know to be one.
func (h *Hook) dryRun() error {
	if h.SideEffects == nil {
		return &callError{h.Name, fmt.Errorf("Webhook SideEffects is nil")} //nolint:staticcheck // Kubernetes' words
	}
	if *h.SideEffects == admissionv1.SideEffectClassNone || *h.SideEffects == admissionv1.SideEffectClassNoneOnDryRun {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.Name))
}
