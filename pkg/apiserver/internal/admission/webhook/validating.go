package webhook

import (
	"context"
	"fmt"
	"sync"

	reviewv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Validating calls validating webhooks.
type Validating struct{ Config }

// Name returns the plugin's name.
func (Validating) Name() string { return "ValidatingAdmissionWebhook" }

// matchingCall is a matching webhook with the result of its call.
type matchingCall struct {
	hook     *Hook
	version  match.Version
	seen     *admission.VersionedAttributes
	response *reviewv1.AdmissionResponse
	err      error
}

// Validate calls all matching webhooks concurrently. The first error in order is the result.
func (p Validating) Validate(ctx context.Context, a *stage.Admission) error {
	hooks, err := p.Hooks(ctx)
	if err != nil || len(hooks) == 0 {
		return err
	}
	q := match.NewRequest(a, p.Reader)
	var all []*matchingCall
	for _, h := range hooks {
		v, ok, err := h.matches(ctx, q, p.Authorizer)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		seen, err := q.Versioned(v)
		if err != nil {
			return err
		}
		all = append(all, &matchingCall{hook: h, version: v, seen: seen})
	}
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(func() { one.response, one.err = p.call(ctx, one.hook, q, one.version, one.seen, false) })
	}
	wg.Wait()
	var first error
	for i, one := range all {
		record(a, one.hook, one.response)
		open, err := outcome(ctx, one.hook, one.err)
		if open {
			a.Annotate(fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i), one.hook.Name)
		}
		if first == nil {
			first = err
		}
	}
	return first
}
