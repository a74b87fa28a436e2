package verbs

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Authorize returns nil or a Forbidden StatusError. The HTTP front end calls it before it reads the rest of a request, so
// that the response to a client without permission reveals nothing more. The verbs call it for every request, and do not
// authorize a request again.
func (e *Engine) Authorize(ctx context.Context, req *Request) error {
	if req.authorized {
		return nil
	}
	start := e.machine.Now()
	if err := e.authorize(ctx, &req.Attributes); err != nil {
		return err
	}
	req.authorized = true
	req.authz = trace.Stage{Name: "authz", Start: start, Took: e.machine.Since(start)}
	return nil
}

// authorize calls the authorizers. An engine without authorizers allows every request.
func (e *Engine) authorize(ctx context.Context, a *stage.Attributes) error {
	if len(e.stages.Authorizers) == 0 {
		return nil
	}
	return authz.Check(ctx, e.stages.Authorizers, a)
}

// admit authorizes a request and then returns an Invalid error if its options have errors. kind is the kind of the
// options.
func (e *Engine) admit(ctx context.Context, req *Request, kind string, errs field.ErrorList) error {
	if err := e.Authorize(ctx, req); err != nil {
		return err
	}
	if len(errs) > 0 {
		return invalidOptions(kind, errs)
	}
	return nil
}

// admitList is admit for a request with ListOptions.
func (e *Engine) admitList(ctx context.Context, req *Request, opts *metav1.ListOptions) error {
	if !req.authorized {
		req.setFields(opts)
	}
	return e.admit(ctx, req, "ListOptions", listOptionErrors(opts))
}

// setFields sets the field selector that authorizers see. An invalid selector is refused after the authorization.
func (req *Request) setFields(opts *metav1.ListOptions) {
	if opts.FieldSelector == "" {
		return
	}
	if s, err := fields.ParseSelector(opts.FieldSelector); err == nil {
		req.Fields = s
	}
}
