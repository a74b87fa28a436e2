package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Mutating asks the webhooks that may change an object, and refuse it.
type Mutating struct{ Config }

const mutatingName = "MutatingAdmissionWebhook"

// Name returns the plugin's name.
func (Mutating) Name() string { return mutatingName }

// Mutate asks the webhooks one after the other. When one changes the object, all mutators are called a second time, and
// the webhooks before it that want to see changes are asked again.
func (p Mutating) Mutate(ctx context.Context, a *stage.Admission) error {
	return p.run(ctx, a)
}

// Admit asks the webhooks about deletes and connections, in which there is nothing to change.
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
		if err := p.ask(ctx, q, h, i, r); err != nil {
			return err
		}
	}
	r.End()
	return nil
}

// ask asks one webhook, when the request concerns it, and applies what it changes.
func (p Mutating) ask(ctx context.Context, q *match.Request, h *Hook, index int, r *match.Rounds) error {
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
	answer, err := p.call(ctx, h, q, v, seen, true)
	tell(a, h, answer)
	open, err := verdict(ctx, h, err)
	changed := false
	if err == nil && !open {
		changed, err = apply(q, h, v, seen, answer)
		var applied bool
		if applied, err = verdict(ctx, h, err); applied {
			open = true
		}
	}
	at := fmt.Sprintf("round_%d_index_%d", round, index)
	if open {
		a.Annotate("failed-open.mutation.webhook.admission.k8s.io/"+at, h.Name)
	}
	note, _ := json.Marshal(mutation{h.Configuration, h.Name, changed}) // of texts and a bool: cannot fail
	a.Annotate("mutation.webhook.admission.k8s.io/"+at, string(note))
	if err == nil && !open && len(answer.Patch) > 0 && a.Audit != nil && a.Audit.Bodies() {
		if note, err := json.Marshal(patched{h.Configuration, h.Name, answer.Patch, "JSONPatch"}); err == nil {
			a.Annotate("patch.webhook.admission.k8s.io/"+at, string(note))
		}
	}
	if err != nil {
		return err
	}
	r.Done(h.ID, changed, h.ReinvocationPolicy != nil && *h.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy)
	return nil
}

// mutation is what the audit log shows of a webhook's call.
type mutation struct {
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	Mutated       bool   `json:"mutated"`
}

// patched is what an audit log that shows bodies tells of it.
type patched struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Patch         json.RawMessage `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

// apply changes the object as a webhook says.
func apply(q *match.Request, h *Hook, v match.Version, seen *admission.VersionedAttributes, answer *reviewv1.AdmissionResponse) (bool, error) {
	if len(answer.Patch) == 0 {
		return false, nil
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	if err != nil {
		return false, &callError{h.Name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	if len(patch) == 0 {
		return false, nil
	}
	if seen.VersionedObject == nil {
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	}
	if *answer.PatchType != reviewv1.PatchTypeJSONPatch {
		return false, &callError{h.Name, fmt.Errorf("unsupported patch type %q", *answer.PatchType)}
	}
	before, err := json.Marshal(seen.VersionedObject)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	after, err := patch.Apply(before)
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
