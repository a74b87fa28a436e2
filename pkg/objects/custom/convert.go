package custom

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/objects"
)

// read decodes a stored value of any version and converts it to the storage version. It applies the defaults of
// the version that the value was stored in, as Kubernetes does.
func (k *kind) read(value []byte) (objects.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &u.Object); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.names.Kind, err)
	}
	v, err := k.versionOf(u)
	if err != nil {
		return nil, err
	}
	if _, err := v.fit(u, coercion{stored: true}); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", k.names.Kind, err)
	}
	v.setDefaults(u)
	if v == k.stored {
		return u, nil
	}
	return k.turn(u, k.stored)
}

// versionOf returns the version of an object's apiVersion.
func (k *kind) versionOf(u *unstructured.Unstructured) (*version, error) {
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil {
		return nil, err
	}
	v := k.versions[gv.Version]
	if v == nil || gv.Group != k.crd.Spec.Group {
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", gv)
	}
	return v, nil
}

// convert returns obj in the version to. It does not change obj.
func (k *kind) convert(obj runtime.Object, to *version) (*unstructured.Unstructured, error) {
	u := obj.(*unstructured.Unstructured)
	if !k.byWebhook() || u.GetAPIVersion() == to.gvk.GroupVersion().String() {
		u = u.DeepCopy()
	}
	return k.turn(u, to)
}

// turn is like convert, but may change the object.
func (k *kind) turn(u *unstructured.Unstructured, to *version) (*unstructured.Unstructured, error) {
	gv := to.gvk.GroupVersion()
	switch {
	case u.GetAPIVersion() == gv.String():
	case k.byWebhook():
		var err error
		if u, err = k.callWebhook(u, gv); err != nil {
			return nil, err
		}
	default:
		u.SetGroupVersionKind(to.gvk)
	}
	if _, err := to.fit(u, coercion{}); err != nil {
		return nil, err
	}
	return u, nil
}

// shown caches the fields of an immutable object of the storage version, converted to another version.
type shown struct {
	obj    objects.Object
	fields map[string]any
}

// show is like view, for an immutable object. It caches the last result.
func (v *version) show(obj objects.Object) (map[string]any, error) {
	if v == v.stored {
		return content(obj), nil
	}
	if s := v.last.Load(); s != nil && s.obj == obj {
		return s.fields, nil
	}
	fields, err := v.view(obj)
	if err == nil {
		v.last.Store(&shown{obj, fields})
	}
	return fields, err
}

func (k *kind) byWebhook() bool {
	c := k.crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter
}

// callWebhook calls the conversion webhook. The functions of a row get no context of a request: the webhook's timeout bounds the
// call.
func (k *kind) callWebhook(u *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	if k.webhook == nil {
		return nil, errors.New("no client for the conversion webhook")
	}
	out, err := k.webhook.Convert(context.Background(), k.crd, []*unstructured.Unstructured{u}, to) //nolint:forbidigo // see above
	if err != nil {
		return nil, err
	}
	if len(out) != 1 {
		return nil, fmt.Errorf("conversion webhook for %s returned %d objects, expected 1", u.GroupVersionKind(), len(out))
	}
	return out[0], nil
}
