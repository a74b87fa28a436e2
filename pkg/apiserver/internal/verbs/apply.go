package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/objects"
)

// apply merges a configuration into an object, or creates the object from it (server-side apply).
func (w *write) apply(ctx context.Context, data []byte, opts *metav1.PatchOptions) (Result, error) {
	config, err := readConfiguration(data, validatesFields(opts.FieldValidation))
	if err != nil {
		return Result{}, err
	}
	if s, ok := subresourceOf(w.r, w.req.Subresource); ok {
		return w.modifyThrough(ctx, s, change{keepsVersion: true, build: func(_ context.Context, view objects.Object) (objects.Object, error) {
			return w.applied(view, config, opts)
		}})
	}
	return w.modify(ctx, change{
		create:       w.req.Subresource == "",
		keepsVersion: true,
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

// configuration is the partial object that a client applies.
type configuration struct {
	object     *unstructured.Unstructured
	duplicates error // names the duplicate fields; nil when there are none or the request ignores them
}

// readConfiguration reads a configuration in YAML. With check it looks for duplicate fields. Integers stay integers, because
// validation rules and scales of custom resources need them.
func readConfiguration(data []byte, check bool) (configuration, error) {
	c := configuration{object: &unstructured.Unstructured{}}
	if PlainJSON(data) {
		if strict, err := kjson.UnmarshalStrict(data, &c.object.Object); err == nil && len(strict) == 0 {
			return c, nil
		}
		c.object.Object = nil // the errors are those of YAML
	}
	if err := bodies.CheckYAML(data); err != nil {
		return c, err
	}
	if check {
		converted, err := yaml.YAMLToJSONStrict(data)
		if err == nil {
			return c, c.decode(converted)
		}
		c.duplicates = notConverted(err)
	}
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return c, badConfiguration(notConverted(err))
	}
	return c, c.decode(converted)
}

// decode decodes the JSON that a configuration in YAML was converted to, unless it would take too much memory.
func (c *configuration) decode(converted []byte) error {
	if err := bodies.CheckWeight(converted); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(converted))
	d.UseNumber()
	if err := d.Decode(&c.object.Object); err != nil {
		return badConfiguration(fmt.Errorf("error unmarshaling JSON: while decoding JSON: %w", err))
	}
	if err := utiljson.ConvertMapNumbers(c.object.Object, 0); err != nil {
		return badConfiguration(err)
	}
	return nil
}

func notConverted(err error) error { return fmt.Errorf("error converting YAML to JSON: %w", err) }

func badConfiguration(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
}

// applied returns a copy of old, an object or its view through a subresource, with a configuration merged in.
func (w *write) applied(old objects.Object, config configuration, opts *metav1.PatchOptions) (objects.Object, error) {
	force := opts.Force != nil && *opts.Force
	obj, err := w.tracker.Apply(w.tracked(), old, config.object.DeepCopy(), force)
	if err != nil {
		return nil, err
	}
	if err := w.reportDuplicates(config, opts.FieldValidation); err != nil {
		return nil, err
	}
	return obj, w.checkPatched(obj)
}

// mayCreate authorizes an apply to an absent object, which requires the right to create it.
func (w *write) mayCreate(ctx context.Context) error {
	a := w.req.Attributes
	a.Verb = "create"
	return w.authorize(ctx, &a)
}

// reportDuplicates adds a warning about duplicate fields of a configuration, or refuses them.
func (w *write) reportDuplicates(config configuration, validation string) error {
	if config.duplicates == nil {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", config.duplicates))
	}
	w.req.Warn(config.duplicates.Error())
	return nil
}
