package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	reviewv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Source returns the configured webhooks. Without any it costs next to nothing.
type Source func(ctx context.Context) (Hooks, error)

// Config holds the dependencies of both plugins.
type Config struct {
	Reader     stage.Reader
	Hooks      Source
	Authorizer authorizer.Authorizer // for the match conditions
	UID        func() types.UID      // makes the UIDs of reviews
}

// call calls a webhook. It adds the response's warnings and audit annotations to the request.
func (c Config) call(ctx context.Context, h *Hook, q *match.Request, v match.Version, seen *admission.VersionedAttributes, mutating bool) (*reviewv1.AdmissionResponse, error) {
	if q.Admission().DryRun {
		if err := h.dryRun(); err != nil {
			return nil, err
		}
	}
	review, err := h.newReview(c.UID(), q, v, seen)
	if err != nil {
		return nil, &callError{h.Name, err}
	}
	timeout := defaultTimeout
	if h.TimeoutSeconds != nil {
		timeout = time.Duration(*h.TimeoutSeconds) * time.Second
	}
	body, err := h.post(ctx, timeout, review)
	if err != nil {
		return nil, &callError{h.Name, err}
	}
	r, err := readReview(review, body, mutating)
	if err != nil {
		return nil, &callError{h.Name, err}
	}
	if !r.Allowed {
		return r, denied(h.Name, r.Result)
	}
	return r, nil
}

const defaultTimeout = 10 * time.Second

// post sends a review and returns the response.
func (h *Hook) post(ctx context.Context, timeout time.Duration, review *reviewv1.AdmissionReview) ([]byte, error) {
	if err := h.client.Open(); err != nil {
		return nil, fmt.Errorf("could not get REST client: %w", err)
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("could not create admission objects: %w", err)
	}
	response, err := h.client.Post(ctx, timeout, body)
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	return response, nil
}

// record adds a response's warnings and audit annotations to the request.
func record(a *stage.Admission, h *Hook, r *reviewv1.AdmissionResponse) {
	if r == nil {
		return
	}
	for key, value := range r.AuditAnnotations {
		a.Annotate(h.Name+"/"+key, value)
	}
	for _, w := range r.Warnings {
		a.Warn(w)
	}
}

// outcome converts the error of a call to that of the request. With open, the failurePolicy ignores the error.
func outcome(ctx context.Context, h *Hook, err error) (open bool, _ error) {
	failed := new(callError)
	if !errors.As(err, &failed) {
		return false, err
	}
	if !h.ignores() {
		return false, apierrors.NewInternalError(err)
	}
	if ctx.Err() != nil {
		return false, apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	slog.WarnContext(ctx, "webhook failed; ignored by its failurePolicy", "webhook", h.Name, "err", err)
	return true, nil
}
