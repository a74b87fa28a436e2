package kubelet

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestOwnFieldsAreFieldsOfThePodSpec(t *testing.T) {
	types := map[string]reflect.Type{}
	collect(reflect.TypeFor[corev1.PodSpec](), types)
	for typ, entries := range ownFields {
		for name := range entries {
			if name != Others && !hasField(types[typ], name) {
				t.Errorf("the entry %s.%s is for no field", typ, name)
			}
		}
	}
}

// collect adds the struct types that typ contains, itself included, by name.
func collect(typ reflect.Type, types map[string]reflect.Type) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		collect(typ.Elem(), types)
	case reflect.Struct:
		if types[typ.Name()] != nil {
			return
		}
		types[typ.Name()] = typ
		for i := range typ.NumField() {
			collect(typ.Field(i).Type, types)
		}
	}
}

func hasField(typ reflect.Type, name string) bool {
	if typ == nil {
		return false
	}
	for i := range typ.NumField() {
		if own, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); own == name {
			return true
		}
	}
	return false
}
