// Package check holds the checks that rows share: numbers, names, choices and metadata, with Kubernetes' messages.
// A check returns nil for a valid value, and allocates only for an invalid one.
package check

import (
	"bytes"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Metadata, Spec and Status are the paths of these fields.
var (
	Metadata = field.NewPath("metadata")
	Spec     = field.NewPath("spec")
	Status   = field.NewPath("status")
)

// Name is a check of names, as in objects.Def.
type Name = func(name string, prefix bool) []string

// Meta checks the metadata of an object on create.
func Meta(obj metav1.Object, namespaced bool, name Name) field.ErrorList {
	return append(OpenMeta(obj, namespaced, name), kubeFinalizers(obj)...)
}

// OpenMeta is Meta for kinds whose finalizers may have any name.
func OpenMeta(obj metav1.Object, namespaced bool, name Name) field.ErrorList {
	if plainMeta(obj) && namespaced == (obj.GetNamespace() != "") && obj.GetName() != "" && name(obj.GetName(), false) == nil &&
		(obj.GetGenerateName() == "" || name(obj.GetGenerateName(), true) == nil) && (!namespaced || isDNSLabel(obj.GetNamespace())) {
		return nil
	}
	errs := validation.ValidateObjectMetaAccessor(unlabelled{withFewErrors(obj)}, namespaced, name, Metadata)
	return withLabelErrors(obj, errs, "annotations", "ownerReferences", "finalizers", "managedFields")
}

// MetaUpdate checks the new metadata and its changes.
func MetaUpdate(obj, old metav1.Object) field.ErrorList {
	return append(OpenMetaUpdate(obj, old), kubeFinalizers(obj)...)
}

// OpenMetaUpdate is MetaUpdate for kinds whose finalizers may have any name.
func OpenMetaUpdate(obj, old metav1.Object) field.ErrorList {
	if plainMeta(obj) && old.GetDeletionTimestamp() == nil && sameSystemFields(obj, old) {
		return nil
	}
	errs := validation.ValidateObjectMetaAccessorUpdate(unlabelled{obj}, old, Metadata)
	return withLabelErrors(obj, errs, "annotations", "ownerReferences", "managedFields")
}

// unlabelled is metadata without labels, whose errors the library returns in random order.
type unlabelled struct{ metav1.Object }

// GetLabels implements metav1.Object.
func (unlabelled) GetLabels() map[string]string { return nil }

// withLabelErrors inserts the errors of an object's labels into those of its other metadata: before those of the fields that the library
// checks after the labels.
func withLabelErrors(obj metav1.Object, errs field.ErrorList, after ...string) field.ErrorList {
	i := slices.IndexFunc(errs, func(e *field.Error) bool {
		return slices.ContainsFunc(after, func(name string) bool { return strings.HasPrefix(e.Field, Metadata.Child(name).String()) })
	})
	if i < 0 {
		i = len(errs)
	}
	return slices.Insert(errs, i, Labels(obj.GetLabels(), Metadata, "labels")...)
}

// plainMeta reports whether labels, annotations and owners are certainly valid. Only for other metadata is the library called, which
// returns the errors.
func plainMeta(obj metav1.Object) bool {
	if obj.GetGeneration() < 0 || len(obj.GetFinalizers()) > 0 || !areLabels(obj.GetLabels()) || !areAnnotations(obj.GetAnnotations()) {
		return false
	}
	controllers := 0
	for _, ref := range obj.GetOwnerReferences() {
		if ref.APIVersion == "" || ref.Kind == "" || ref.Name == "" || ref.UID == "" || ref.Kind == "Event" || strings.Count(ref.APIVersion, "/") > 1 ||
			strings.HasSuffix(ref.APIVersion, "/") {
			return false
		}
		if ref.Controller != nil && *ref.Controller {
			controllers++
		}
	}
	return controllers < 2 && plainManagers(obj.GetManagedFields())
}

// plainManagers reports whether managedFields have the form that the server writes.
func plainManagers(entries []metav1.ManagedFieldsEntry) bool {
	for i := range entries {
		e := &entries[i]
		if e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate ||
			e.FieldsType != "" && e.FieldsType != "FieldsV1" || len(e.Subresource) > 256 || e.Manager == "" || len(e.Manager) > 128 || !isGraphic(e.Manager) {
			return false
		}
	}
	return true
}

// sameSystemFields reports whether all immutable fields are unchanged.
func sameSystemFields(obj, old metav1.Object) bool {
	now, was := obj.GetCreationTimestamp(), old.GetCreationTimestamp()
	return obj.GetResourceVersion() != "" && obj.GetGeneration() >= old.GetGeneration() && obj.GetName() == old.GetName() &&
		obj.GetNamespace() == old.GetNamespace() && obj.GetUID() == old.GetUID() && now.Equal(&was) &&
		obj.GetDeletionTimestamp() == nil && obj.GetDeletionGracePeriodSeconds() == nil && old.GetDeletionGracePeriodSeconds() == nil
}

func areAnnotations(annotations map[string]string) bool {
	size := 0
	for key, value := range annotations {
		if !isQualified(strings.ToLower(key)) {
			return false
		}
		size += len(key) + len(value)
	}
	return size <= validation.TotalAnnotationSizeLimitB
}

// kubeFinalizers checks that finalizers without a domain are Kubernetes' own.
func kubeFinalizers(obj metav1.Object) field.ErrorList {
	var errs field.ErrorList
	for i, name := range obj.GetFinalizers() {
		if len(errs) == chunk {
			break
		}
		if !isKubeFinalizer(name) {
			errs = append(errs, unqualifiedFinalizer(name, Metadata.Child("finalizers").Index(i)))
		}
	}
	return errs
}

// isKubeFinalizer reports whether a finalizer without a domain is Kubernetes' own.
func isKubeFinalizer(name string) bool {
	return strings.Contains(name, "/") || name == "kubernetes" || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
}

func unqualifiedFinalizer(name string, at *field.Path) *field.Error {
	return field.Invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified")
}

// Finalizer checks one finalizer.
func Finalizer(name string, at *field.Path) field.ErrorList {
	errs := validation.ValidateFinalizerName(name, at)
	if !isKubeFinalizer(name) {
		errs = append(errs, unqualifiedFinalizer(name, at))
	}
	return errs
}

// NonNegative checks that value is not below zero.
func NonNegative[N ~int32 | ~int64 | ~int](value N, at *field.Path, child ...string) field.ErrorList {
	if value >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(Below(at, child), int64(value), validation.IsNegativeErrorMsg).WithOrigin("minimum")}
}

// NonNegativeQuantity checks that q is not below zero.
func NonNegativeQuantity(q resource.Quantity, at *field.Path) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.String(), validation.IsNegativeErrorMsg)}
}

// Immutable checks that a field did not change.
func Immutable(now, old any, at *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(now, old, at)
}

// encoder is implemented by the generated types of k8s.io/api.
type encoder interface{ Marshal() ([]byte, error) }

// Same reports whether two specs are semantically equal. Equal encodings prove it quickly; with different ones the specs may still be
// equal ("1000m" and "1"), so they are compared in full.
func Same(a, b encoder) bool {
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	return errX == nil && errY == nil && bytes.Equal(x, y) || equality.Semantic.DeepEqual(a, b)
}

// Generation sets an object's generation in an update: the old one, plus one if changed returns true.
func Generation(obj, old metav1.Object, changed func() bool) {
	generation := old.GetGeneration()
	if changed() {
		generation++
	}
	obj.SetGeneration(generation)
}
