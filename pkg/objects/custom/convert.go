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

// read decodes what the store keeps, in whichever version it was written, into the stored version. The defaults are those
// of the version in which it was written, as Kubernetes has it.
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

// versionOf returns the version that an object says it has.
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

// convert returns obj in the version to. obj is not changed.
func (k *kind) convert(obj runtime.Object, to *version) (*unstructured.Unstructured, error) {
	u := obj.(*unstructured.Unstructured)
	if !k.byWebhook() || u.GetAPIVersion() == to.gvk.GroupVersion().String() {
		u = u.DeepCopy()
	}
	return k.turn(u, to)
}

// turn is convert of an object that it may change.
func (k *kind) turn(u *unstructured.Unstructured, to *version) (*unstructured.Unstructured, error) {
	gv := to.gvk.GroupVersion()
	switch {
	case u.GetAPIVersion() == gv.String():
	case k.byWebhook():
		var err error
		if u, err = k.ask(u, gv); err != nil {
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

// shown is an object of the stored version, which is shared and does not change any more, with its fields in another one.
type shown struct {
	obj    objects.Object
	fields map[string]any
}

// show is view of an object that does not change any more.
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

// ask lets the webhook convert an object. It is called by functions of the row, which know of no request: the webhook's own
// time bounds it.
func (k *kind) ask(u *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	if k.webhook == nil {
		return nil, errors.New("there is nobody to call the conversion webhook")
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
