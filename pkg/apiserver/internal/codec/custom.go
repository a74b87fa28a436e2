package codec

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

// decodeCustom is Decode for a custom resource. There is no Go type that a body of another kind would not fit, so such a
// body is decoded, too, and validation refuses it.
func decodeCustom(b Body, k Kind, obj runtime.Object) (warnings []string, err error) {
	want := k.GVK()
	if b.Format == Protobuf {
		return nil, cannotHandle(want, want.Kind, ErrNoProtobuf)
	}
	r, err := b.read(want, obj, k.version())
	if err != nil {
		return nil, err
	}
	if r.declared.Kind == "" { // no Go type implies the kind
		return nil, b.missingKind(want)
	}
	if r.err == nil {
		r.err = r.strictError(b)
	}
	if r.err != nil {
		return nil, cannotHandle(r.actual, want.Kind, r.err)
	}
	if r.declared.GroupVersion() != want.GroupVersion() {
		return nil, wrongVersion(r.declared.GroupVersion(), want.GroupVersion())
	}
	if r.actual.Kind != want.Kind {
		return nil, apierrors.NewInvalid(r.actual.GroupKind(), nameOf(obj), field.ErrorList{
			field.Invalid(field.NewPath("kind"), r.actual.Kind, "must be "+want.Kind),
		})
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return r.warnings(), nil
}

// missingKind is the error of a body without a kind.
func (b Body) missingKind(want schema.GroupVersionKind) error {
	data, err := b.Data, error(nil)
	if b.Format == YAML {
		data, _, err = b.convert() // the message has the JSON that Kubernetes converts YAML to
	}
	if err == nil {
		err = fmt.Errorf("Object 'Kind' is missing in '%s'", data) //nolint:staticcheck // Kubernetes' words
	}
	if b.Validation == validateIgnore {
		return cannotHandle(want, want.Kind, err)
	}
	return unrecognized(b.Data, want.Kind, err)
}

// version returns the served version of the kind.
func (k Kind) version() *objects.VersionOf {
	if k.Version != nil {
		return k.Version
	}
	return &k.Resource.Versions[0]
}

func nameOf(obj runtime.Object) string {
	if o, ok := obj.(objects.Object); ok {
		return o.GetName()
	}
	return ""
}
