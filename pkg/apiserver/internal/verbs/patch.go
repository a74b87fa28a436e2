package verbs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Patch changes an object by a description of the change.
func (e *Engine) Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error) {
	return Result{}, apierrors.NewMethodNotSupported(req.Resource.Names.GR(), "patch")
}
