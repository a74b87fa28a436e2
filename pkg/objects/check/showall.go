package check

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Enough is how many errors are told of one kind, where there could be a square of what somebody has sent.
const Enough = 1000

// What an answer has room for: so many errors of any length, and then so many bytes.
const (
	mostWhole = 16
	mostText  = 1 << 20
)

// ShowAll has errors show the values that they complain about as Kubernetes does. Of very many it keeps those that an answer
// has room for, and says how many there are besides.
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
