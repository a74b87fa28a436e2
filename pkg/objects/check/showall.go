package check

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Enough bounds the number of errors of one kind where it could grow with the square of the input.
const Enough = 1000

// The bounds of a response: the number of errors that are always shown, and the number of bytes for further ones.
const (
	mostWhole = 16
	mostText  = 1 << 20
)

// ShowAll formats the values in errors as Kubernetes does. It truncates the list to the bounds of a response, and adds the number of
// omitted errors.
func ShowAll(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if err.BadValue != nil && isOfAPI(reflect.TypeOf(err.BadValue)) {
			err.BadValue = shown{err.BadValue}
		}
	}
	size := 0
	for i := mostWhole; i < len(errs); i++ {
		if size += len(errs[i].Field) + len(errs[i].ErrorBody()); size > mostText {
			return append(errs[:i:i], field.Invalid(nil, field.OmitValueType{}, fmt.Sprintf("there is no room for %d more errors", len(errs)-i)))
		}
	}
	return errs
}

// isOfAPI reports whether a type is or contains a struct of the API, which has an internal counterpart.
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
