package codec

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
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
	if r.err == nil {
		r.err = r.refused(b)
	}
	if r.err != nil {
		return nil, cannotHandle(r.actual, want.Kind, r.err)
	}
	if r.actual.GroupVersion() != want.GroupVersion() {
		return nil, wrongVersion(r.actual.GroupVersion(), want.GroupVersion())
	}
	if r.actual.Kind != want.Kind {
		return nil, apierrors.NewInvalid(want.GroupKind(), nameOf(obj), field.ErrorList{
			field.Invalid(field.NewPath("kind"), r.actual.Kind, "must be "+want.Kind),
		})
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return r.warnings(), nil
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
