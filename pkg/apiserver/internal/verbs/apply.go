package verbs

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/minikctl/minikctl/pkg/objects"
)

// apply merges a configuration into an object, or makes the object of it (server-side apply).
func (w *write) apply(ctx context.Context, data []byte, opts *metav1.PatchOptions) (Result, error) {
	config, err := readConfiguration(data, checks(opts.FieldValidation))
	if err != nil {
		return Result{}, err
	}
	if s, ok := subresourceOf(w.r, w.req.Subresource); ok {
		return w.setThrough(ctx, s, change{patched: true, build: func(_ context.Context, view objects.Object) (objects.Object, error) {
			return w.applied(view, config, opts)
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
			obj, err := w.applied(old, config, opts)
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

// configuration is what a client applies.
type configuration struct {
	object *unstructured.Unstructured
	twice  error // says which fields are there twice, if that was looked for
}

// readConfiguration reads a configuration, which is YAML, and with check looks for fields that are there twice. Integers stay
// integers, which rules and scales of custom resources ask for.
func readConfiguration(data []byte, check bool) (configuration, error) {
	c := configuration{object: &unstructured.Unstructured{}}
	if check {
		if c.twice = yaml.UnmarshalStrict(data, &c.object.Object); c.twice == nil {
			return c, nil
		}
	}
	c.object.Object = nil
	if err := yaml.Unmarshal(data, &c.object.Object); err != nil {
		return c, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	return c, nil
}

// applied returns what a configuration makes of an object, or of the view of one that a subresource has.
func (w *write) applied(old objects.Object, config configuration, opts *metav1.PatchOptions) (objects.Object, error) {
	force := opts.Force != nil && *opts.Force
	obj, err := w.tracker.Apply(w.tracked(), old, config.object.DeepCopy(), force)
	if err != nil {
		return nil, err
	}
	if err := w.complainTwice(config, opts.FieldValidation); err != nil {
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

// complainTwice warns about fields that a configuration has twice, or refuses them.
func (w *write) complainTwice(config configuration, validation string) error {
	if config.twice == nil {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", config.twice))
	}
	w.req.Warn(config.twice.Error())
	return nil
}
