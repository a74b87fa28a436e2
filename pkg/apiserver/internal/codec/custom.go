package codec

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

// decodeCustom is Decode for a kind known at run time only. What is wrong with its fields is not a matter of reading the
// body, since no type says what they are; so a body of another kind can be read too, and is refused in the words of a
// validation.
func decodeCustom(b Body, k Kind, obj runtime.Object) (warnings []string, err error) {
	want := k.GVK()
	if b.Format == Protobuf {
		return nil, cannotHandle(want, want.Kind, ErrNoProtobuf)
	}
	r, err := b.read(want, obj, k.version())
	if err != nil {
		return nil, err
	}
	if r.said.Kind == "" { // such kinds have no type that would say it
		return nil, b.kindless(want)
	}
	if r.err == nil {
		r.err = r.refused(b)
	}
	if r.err != nil {
		return nil, cannotHandle(r.actual, want.Kind, r.err)
	}
	if r.said.GroupVersion() != want.GroupVersion() {
		return nil, wrongVersion(r.said.GroupVersion(), want.GroupVersion())
	}
	if r.actual.Kind != want.Kind {
		return nil, apierrors.NewInvalid(r.actual.GroupKind(), nameOf(obj), field.ErrorList{
			field.Invalid(field.NewPath("kind"), r.actual.Kind, "must be "+want.Kind),
		})
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return r.warnings(), nil
}

// kindless is the error of a body that does not say what it is, as JSON.
func (b Body) kindless(want schema.GroupVersionKind) error {
	data, _, err := b.json()
	if err == nil {
		err = fmt.Errorf("Object 'Kind' is missing in '%s'", data) //nolint:staticcheck // Kubernetes' words
	}
	if b.Validation == validateIgnore {
		return cannotHandle(want, want.Kind, err)
	}
	return unrecognized(b.Data, want.Kind, err)
}

// version is what the kind is served in.
func (k Kind) version() *objects.Served {
	if k.Served != nil {
		return k.Served
	}
	return &k.Resource.Versions[0]
}

func nameOf(obj runtime.Object) string {
	if o, ok := obj.(objects.Object); ok {
		return o.GetName()
	}
	return ""
}
