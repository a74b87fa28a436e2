package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/patch"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Mutating calls mutating webhooks.
type Mutating struct{ Config }

const mutatingName = "MutatingAdmissionWebhook"

// Name returns the plugin's name.
func (Mutating) Name() string { return mutatingName }

// Mutate calls the webhooks in order. If one changes the object, all mutators run a second time, and
// earlier webhooks with reinvocationPolicy IfNeeded are called again.
func (p Mutating) Mutate(ctx context.Context, a *stage.Admission) error {
	return p.run(ctx, a)
}

// Validate calls the webhooks for deletes and connects, whose responses cannot change an object.
func (p Mutating) Validate(ctx context.Context, a *stage.Admission) error {
	if a.Operation == stage.Create || a.Operation == stage.Update {
		return nil
	}
	return p.run(ctx, a)
}

func (p Mutating) run(ctx context.Context, a *stage.Admission) error {
	hooks, err := p.Hooks(ctx)
	if err != nil || len(hooks) == 0 {
		return err
	}
	r := match.RoundsOf(a, mutatingName)
	q := match.NewRequest(a, p.Reader)
	for i, h := range hooks {
		if r.Skips(h.ID) {
			continue
		}
		if err := p.callMatching(ctx, q, h, i, r); err != nil {
			return err
		}
	}
	r.End()
	return nil
}

// callMatching calls a webhook if it matches the request, and applies its patch.
func (p Mutating) callMatching(ctx context.Context, q *match.Request, h *Hook, index int, r *match.Rounds) error {
	a := q.Admission()
	v, ok, err := h.matches(ctx, q, p.Authorizer)
	if err != nil || !ok {
		return err
	}
	seen, err := q.Versioned(v)
	if err != nil {
		return err
	}
	round := 0
	if a.Reinvocation.IsReinvoke() {
		round = 1
	}
	response, err := p.call(ctx, h, q, v, seen, true)
	record(a, h, response)
	open, err := outcome(ctx, h, err)
	changed := false
	if err == nil && !open {
		changed, err = apply(ctx, q, h, v, seen, response)
		var applied bool
		if applied, err = outcome(ctx, h, err); applied {
			open = true
		}
	}
	at := fmt.Sprintf("round_%d_index_%d", round, index)
	if open {
		a.Annotate("failed-open.mutation.webhook.admission.k8s.io/"+at, h.Name)
	}
	note, _ := json.Marshal(mutation{h.Configuration, h.Name, changed}) // cannot fail: it has strings and a bool only
	a.Annotate("mutation.webhook.admission.k8s.io/"+at, string(note))
	if err == nil && !open && len(response.Patch) > 0 && a.Audit != nil && a.Audit.Bodies() {
		if note, err := json.Marshal(patched{h.Configuration, h.Name, response.Patch, "JSONPatch"}); err == nil {
			a.Annotate("patch.webhook.admission.k8s.io/"+at, string(note))
		}
	}
	if err != nil {
		return err
	}
	r.Done(h.ID, changed, h.ReinvocationPolicy != nil && *h.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy)
	return nil
}

// mutation is the audit annotation of a webhook's call.
type mutation struct {
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	Mutated       bool   `json:"mutated"`
}

// patched is the audit annotation with a webhook's patch, at the level of request bodies.
type patched struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Patch         json.RawMessage `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

// apply applies a webhook's patch to the object.
func apply(ctx context.Context, q *match.Request, h *Hook, v match.Version, seen *admission.VersionedAttributes, response *reviewv1.AdmissionResponse) (bool, error) {
	if len(response.Patch) == 0 {
		return false, nil
	}
	steps, err := patch.Decode(response.Patch)
	if err != nil {
		return false, &callError{h.Name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	if len(steps) == 0 {
		return false, nil
	}
	if seen.VersionedObject == nil {
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	}
	if *response.PatchType != reviewv1.PatchTypeJSONPatch {
		return false, &callError{h.Name, fmt.Errorf("unsupported patch type %q", *response.PatchType)}
	}
	before, err := json.Marshal(seen.VersionedObject)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	after, err := patch.Apply(ctx, before, steps, patch.MaxCopied)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	changed, err := q.Replace(v, seen.VersionedObject, func(into runtime.Object) error {
		return kjson.UnmarshalCaseSensitivePreserveInts(after, into)
	})
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}
