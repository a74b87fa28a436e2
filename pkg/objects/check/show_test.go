package check

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestInternalFields fails if the types have a new field.
func TestInternalFields(t *testing.T) {
	elsewhere := append([]string{"DeprecatedServiceAccount"}, hostFields...)
	for i := range reflect.TypeFor[corev1.PodSpec]().NumField() {
		name := reflect.TypeFor[corev1.PodSpec]().Field(i).Name
		if !slices.Contains(internalSpec, name) && !slices.Contains(elsewhere, name) {
			t.Errorf("the order of a pod's fields lacks %s", name)
		}
	}
	for i := range reflect.TypeFor[corev1.PodSecurityContext]().NumField() {
		if name := reflect.TypeFor[corev1.PodSecurityContext]().Field(i).Name; !slices.Contains(internalSecurity, name) {
			t.Errorf("the order of a security context's fields lacks %s", name)
		}
	}
}

// TestInternalOrder fails if the types with a listed order have a new field.
func TestInternalOrder(t *testing.T) {
	for _, value := range []any{corev1.VolumeSource{}, corev1.PersistentVolumeSource{}} {
		order, all := internalOrder(value), reflect.TypeOf(value)
		for i := range all.NumField() {
			if !slices.Contains(order, all.Field(i).Name) {
				t.Errorf("the order of the fields of %v lacks %s", all, all.Field(i).Name)
			}
		}
		if len(order) != all.NumField() {
			t.Errorf("%v has %d fields, %d are listed", all, all.NumField(), len(order))
		}
	}
}

func TestShow(t *testing.T) {
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"nothing", (*corev1.SecurityContext)(nil), "null"},
		{"fields by their names in Go", &corev1.SeccompProfile{Type: "Localhost"}, `{"Type":"Localhost","LocalhostProfile":null}`},
		{"metadata as in JSON", corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "x"}}.ObjectMeta, `{"name":"x"}`},
		{"embedded", corev1.EphemeralContainer{TargetContainerName: "c"}.VolumeDevices, "null"},
		{"list", []corev1.PodIP{{IP: "::1"}}, `[{"IP":"::1"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := json.Marshal(Shown(tt.value)); err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}
