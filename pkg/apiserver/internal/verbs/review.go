package verbs

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// review handles the create of a review, which passes all stages of a create and is not stored.
func (w *write) review(ctx context.Context, obj objects.Object, review stage.Review) (Result, error) {
	if err := w.track(nil, obj); err != nil {
		return Result{}, err
	}
	a := w.admission(stage.Create, obj, nil)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	if errs := w.r.Validate(obj, nil); len(errs) > 0 { // without a kind, as in Kubernetes
		return Result{}, newInvalid(schema.GroupKind{Group: w.gr().Group}, "", check.ShowAll(errs))
	}
	if err := w.validate(ctx, a); err != nil {
		return Result{}, err
	}
	out, err := review(ctx, &w.req.Attributes, obj)
	if err != nil {
		return Result{}, w.status(err)
	}
	out.GetObjectKind().SetGroupVersionKind(w.r.Names.GVK())
	return Result{Other: out, Created: true}, nil
}
