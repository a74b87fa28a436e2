package objects

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// Unmarshal decodes JSON into a new object, as Kubernetes does: field names are case-sensitive, integers stay
// integers. With strict, complaints lists unknown and duplicate fields. v may be nil for
// objects of a Go type.
func (v *VersionOf) Unmarshal(data []byte, obj runtime.Object, strict bool) (complaints []error, err error) {
	into := any(obj)
	u, untyped := obj.(*unstructured.Unstructured)
	if untyped {
		u.Object = map[string]any{}
		into = &u.Object
	} else {
		data = withFewMistyped(data, reflect.TypeOf(obj))
	}
	if strict {
		complaints, err = kjson.UnmarshalStrict(data, into)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	if err != nil {
		return nil, err
	}
	if untyped && u.Object == nil { // the data is null
		u.Object = map[string]any{}
	}
	if v == nil || v.Coerce == nil {
		return complaints, nil
	}
	unknown, err := v.Coerce(obj)
	if strict {
		for _, path := range unknown {
			complaints = append(complaints, fmt.Errorf("unknown field %q", path))
		}
	}
	return complaints, err
}
