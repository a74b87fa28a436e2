package check

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ShowAll has errors show the values that they complain about as Kubernetes does. It returns errs.
func ShowAll(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if err.BadValue != nil && isOfAPI(reflect.TypeOf(err.BadValue)) {
			err.BadValue = shown{err.BadValue}
		}
	}
	return errs
}

// isOfAPI reports whether values of a type are, or hold, structs of the published API, which have internal counterparts.
func isOfAPI(t reflect.Type) bool {
	for {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			return strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
		default:
			return false
		}
	}
}
