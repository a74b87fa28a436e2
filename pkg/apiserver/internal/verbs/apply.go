package verbs

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

// apply merges a configuration into an object, or makes the object of it (server-side apply).
func (w *write) apply(ctx context.Context, data []byte, opts *metav1.PatchOptions) (Result, error) {
	config := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(data, &config.Object); err != nil {
		return Result{}, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if s, ok := subresourceOf(w.r, w.req.Subresource); ok {
		return w.setThrough(ctx, s, change{patched: true, build: func(_ context.Context, view objects.Object) (objects.Object, error) {
			return w.applied(view, config, data, opts)
		}})
	}
	return w.modify(ctx, change{
		create:  w.req.Subresource == "",
		patched: true,
		build: func(ctx context.Context, old objects.Object) (objects.Object, error) {
			if old == nil {
				if err := w.mayCreate(ctx); err != nil {
					return nil, err
				}
			}
			obj, err := w.applied(old, config, data, opts)
			if err != nil {
				return nil, err
			}
			if old == nil && obj.GetUID() != "" {
				return nil, apierrors.NewConflict(w.gr(), w.req.Name, fmt.Errorf(
					"uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
			}
			return obj, nil
		},
	})
}

// applied returns what a configuration makes of an object, or of the view of one that a subresource has.
func (w *write) applied(old objects.Object, config *unstructured.Unstructured, data []byte, opts *metav1.PatchOptions) (objects.Object, error) {
	force := opts.Force != nil && *opts.Force
	obj, err := w.tracker.Apply(w.tracked(), old, config.DeepCopy(), force)
	if err != nil {
		return nil, err
	}
	if err := w.checkDuplicates(data, opts.FieldValidation); err != nil {
		return nil, err
	}
	return obj, w.named(obj)
}

// mayCreate authorizes what an apply to nothing is.
func (w *write) mayCreate(ctx context.Context) error {
	a := w.req.Attributes
	a.Verb = "create"
	return w.authorize(ctx, &a)
}

// checkDuplicates looks for fields that a configuration has twice.
func (w *write) checkDuplicates(data []byte, validation string) error {
	if !checks(validation) {
		return nil
	}
	err := yaml.UnmarshalStrict(data, &map[string]any{})
	if err == nil {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	}
	w.req.Warn(err.Error())
	return nil
}
