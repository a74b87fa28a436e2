package check

import (
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// chunk is the number of items of metadata that are checked before the errors among them end the check. A body of 3 MB can have
// hundreds of thousands of invalid ones, with up to four errors each.
const chunk = 5000

// withFewErrors returns metadata that is valid if and only if obj's is: its long lists of finalizers and owners end with the first chunk
// that has an error.
func withFewErrors(obj metav1.Object) metav1.Object {
	finalizers, owners := obj.GetFinalizers(), obj.GetOwnerReferences()
	few := untilErrors(finalizers, func(part []string) bool { return len(validation.ValidateFinalizers(part, field.NewPath("f"))) == 0 })
	fewOwners := untilErrors(owners, func(part []metav1.OwnerReference) bool {
		return len(validation.ValidateOwnerReferences(part, field.NewPath("o"))) == 0
	})
	if len(few) == len(finalizers) && len(fewOwners) == len(owners) {
		return obj
	}
	return fewItems{obj, few, fewOwners}
}

// untilErrors returns the items up to the end of the first chunk that is not valid.
func untilErrors[T any](items []T, valid func([]T) bool) []T {
	for end := chunk; end < len(items); end += chunk {
		if !valid(items[end-chunk : end]) {
			return items[:end]
		}
	}
	return items
}

// fewItems is metadata with fewer finalizers and owners.
type fewItems struct {
	metav1.Object
	finalizers []string
	owners     []metav1.OwnerReference
}

// GetFinalizers implements metav1.Object.
func (f fewItems) GetFinalizers() []string { return f.finalizers }

// GetOwnerReferences implements metav1.Object.
func (f fewItems) GetOwnerReferences() []metav1.OwnerReference { return f.owners }
