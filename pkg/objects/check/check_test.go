package check

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOrderOfErrors: the errors of labels come where the library has them, those of several in the order of their keys.
func TestOrderOfErrors(t *testing.T) {
	now := metav1.Now()
	obj := &metav1.ObjectMeta{
		Namespace: "A", Name: "B", Generation: -1, Labels: map[string]string{"a": "!"}, Annotations: map[string]string{"!": ""}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{}}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}
	old := &metav1.ObjectMeta{DeletionTimestamp: &now}
	if got, want := OpenMeta(obj, true, validation.NameIsDNSLabel), validation.ValidateObjectMetaAccessor(obj, true, validation.NameIsDNSLabel, Metadata); got.ToAggregate().Error() != want.ToAggregate().Error() {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got, want := OpenMetaUpdate(obj, old), validation.ValidateObjectMetaAccessorUpdate(obj, old, Metadata); got.ToAggregate().Error() != want.ToAggregate().Error() {
		t.Errorf("update: got %v\nwant %v", got, want)
	}
	labels := map[string]string{}
	for _, key := range strings.Split("hgfedcba", "") {
		labels[key] = "!" + key
	}
	order := ""
	for _, err := range OpenMeta(&metav1.ObjectMeta{Name: "n", Labels: labels}, false, validation.NameIsDNSLabel) {
		order += fmt.Sprint(err.BadValue)
	}
	if order != "!a!b!c!d!e!f!g!h" {
		t.Errorf("got %s", order)
	}
}
