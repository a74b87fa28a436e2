package verbs

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TokenRequests is the kind of the subresource serviceaccounts/token. Nothing of it is stored.
var TokenRequests = objects.Row(objects.Def[*authenticationv1.TokenRequest]{
	Names: objects.Names{Group: authenticationv1.GroupName, Version: "v1", Kind: "TokenRequest", Plural: "tokenrequests"},
	New:   func() *authenticationv1.TokenRequest { return new(authenticationv1.TokenRequest) },
	// There is no list type.
	NewList: func() runtime.Object { return new(authenticationv1.TokenRequest) },
	Default: tokens.Default,
})

// createToken issues a token for a service account (serviceaccounts/token).
func createToken(ctx context.Context, w *write, obj runtime.Object) (Result, error) {
	request, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return Result{}, wrongType(obj)
	}
	if w.config.Token == nil {
		return Result{}, apierrors.NewInternalError(errors.New("the server issues no tokens"))
	}
	if _, err := w.current(ctx, w.table, w.req.key()); err != nil {
		return Result{}, err
	}
	TokenRequests.Default(request)
	kind := track.Write{Resource: &TokenRequests, Subresource: w.req.Subresource, Manager: w.req.Manager}
	if err := w.tracker.Update(kind, nil, request); err != nil {
		return Result{}, err
	}
	w.sub = request
	a := w.admission(stage.Create, request, nil)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	if err := w.validate(ctx, a); err != nil {
		return Result{}, err
	}
	issued, err := w.config.Token(ctx, w.req.key(), request)
	if err != nil {
		return Result{}, w.status(err)
	}
	if w.req.Audit != nil {
		w.req.Annotate("authentication.kubernetes.io/issued-credential-id", tokens.Credential(issued.Status.Token))
	}
	return Result{Other: issued, Created: true}, nil
}
