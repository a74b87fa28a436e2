// Package check owns the small checks that rows share: numbers, names, choices and metadata, with Kubernetes' messages.
// Every check returns nil when all is well and allocates only when it is not.
package check

import (
	"bytes"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Metadata is where every object's metadata stands.
var Metadata = field.NewPath("metadata")

// Name is a check of names, as in objects.Def.
type Name = func(name string, prefix bool) []string

// Meta checks the metadata of an object on create.
func Meta(obj metav1.Object, namespaced bool, name Name) field.ErrorList {
	return validation.ValidateObjectMetaAccessor(obj, namespaced, name, Metadata)
}

// MetaUpdate checks what an update may change of the metadata.
func MetaUpdate(obj, old metav1.Object) field.ErrorList {
	return validation.ValidateObjectMetaAccessorUpdate(obj, old, Metadata)
}

// NonNegative checks that value is not below zero.
func NonNegative[N ~int32 | ~int64 | ~int](value N, at *field.Path) field.ErrorList {
	if value >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, validation.IsNegativeErrorMsg).WithOrigin("minimum")}
}

// Immutable checks that a field did not change.
func Immutable(now, old any, at *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(now, old, at)
}

// encoder is what the generated types of k8s.io/api can do.
type encoder interface{ Marshal() ([]byte, error) }

// Same reports whether two specs mean the same. Equal bytes prove it quickly; unequal ones may still mean the same
// ("1000m" and "1"), which only a comparison by meaning tells.
func Same(a, b encoder) bool {
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	return errX == nil && errY == nil && bytes.Equal(x, y) || equality.Semantic.DeepEqual(a, b)
}

// Generation sets an object's generation: 1 at first, one more with each change of the spec.
func Generation(obj, old metav1.Object, changed func() bool) {
	switch {
	case old == nil:
		obj.SetGeneration(1)
	case changed():
		obj.SetGeneration(old.GetGeneration() + 1)
	default:
		obj.SetGeneration(old.GetGeneration())
	}
}

// StatusMeta takes back from old all metadata that a status write may not change.
func StatusMeta(obj, old metav1.Object) {
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetGeneration(old.GetGeneration())
	obj.SetLabels(old.GetLabels())
	obj.SetAnnotations(old.GetAnnotations())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetOwnerReferences(old.GetOwnerReferences())
}
