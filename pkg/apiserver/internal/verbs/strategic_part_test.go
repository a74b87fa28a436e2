package verbs

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// TestPatchParts: a patch of some fields has the same result as the patch of the whole object, which does not change and shares nothing with
// the result.
func TestPatchParts(t *testing.T) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}, Finalizers: []string{"a/b", "c/d"}, CreationTimestamp: metav1.Unix(1, 0)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, manager := range []string{"m", "n"} {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{}}`)},
		})
	}
	before := pod.DeepCopy()
	whole, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range []string{
		`{}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/b"]}}`,
		`{"metadata":{"uid":"u","labels":{"a":null,"c":"d"}},"status":{"$setElementOrder/conditions":[{"type":"Ready"}],"conditions":[{"type":"Ready","status":"False"}]}}`,
		`{"status":null}`,
		`{"spec":{"containers":[{"name":"c","image":"y"},{"name":"d","image":"z"}]}}`,
		`{"$patch":"replace","metadata":{"name":"p"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"b"}}}`,
		`{"metadata":{"$patch":"replace","name":"p"}}`,
		`{"metadata":{"$retainKeys":["name"],"name":"p"}}`,
		`{"metadata":{"managedFields":[{"manager":"o","operation":"Update"}]}}`,
		`{"metadata":null}`,
	} {
		got, err := new(write).patchStrategic(t.Context(), patchTarget{object: pod, new: func() runtime.Object { return new(corev1.Pod) }}, []byte(patch), metav1.FieldValidationIgnore)
		if err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		merged, err := strategicpatch.StrategicMergePatch(whole, []byte(patch), corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		want := new(corev1.Pod)
		if err := json.Unmarshal(merged, want); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s:\ngot %+v\nwant %+v", patch, got, want)
		}
		out := got.(*corev1.Pod)
		for i := range out.Spec.Containers {
			out.Spec.Containers[i].Image = "changed"
		}
		for i := range out.Status.Conditions {
			out.Status.Conditions[i].Reason = "changed"
		}
		for k := range out.Labels {
			out.Labels[k] = "changed"
		}
		for _, entry := range out.ManagedFields {
			if entry.FieldsV1 != nil {
				entry.FieldsV1.Raw[0] = 'x'
			}
		}
		if !reflect.DeepEqual(pod, before) {
			t.Fatalf("%s has changed the object: %+v", patch, pod)
		}
	}
}
