package bodies_test

import (
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
)

// TestWeight checks what weighs how much, in bodies that are long enough to be weighed.
func TestWeight(t *testing.T) {
	space := strings.Repeat(" ", 1<<20)
	const object, array, other, field = bodies.ObjectWeight, bodies.ArrayWeight, bodies.OtherWeight, bodies.FieldWeight
	for data, want := range map[string]int{
		``:                        0,
		`{}`:                      object,
		`[]`:                      array,
		`1`:                       other,
		`null`:                    bodies.NullWeight,
		`"a,b{[\"{\\"`:            other,
		`{"a":1}`:                 object + 2*other,
		`{"a" : "b", "c":[1,-2]}`: object + 2*other + other + array + 2*other,
		`[[],{},true]`:            array + array + object + other,
		`"unterminated [[[`:       other,
		`]]]]}}`:                  0,
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{"." : {},"k:{\"b\":1}":{}}}}]}}`: 4*object + array + 3*other + 3*(field+other),
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":[{},{}],"a":{}}}]}}`:              4*object + array + 3*other + other + array + 2*object + other + object,
		`{"metadata":{"managedFields":[{"fieldsV1":{}},{"fieldsV1":{"f:a":{}}}]},"f:a":{}}`: 6*object + array + 4*other + field + other + other + object,
		`{"spec":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}`:                              5*object + array + 4*other,
		`{"metadata":{"managedFields":{"x":{"fieldsV1":{"f:a":{}}}}}}`:                      6*object + 5*other,
		strings.Repeat("[", 20000) + strings.Repeat(`{},`, 1000):                            10001*array + 249*250/2*40 + 250, // too deep to be decoded
		strings.Repeat(`{"a":`, 81) + strings.Repeat("}", 81):                               81*object + 81*other + 40*1 + 2,
	} {
		if got := bodies.Weight([]byte(data + space)); got != want {
			t.Errorf("%.50s: got %d, want %d", data, got, want)
		}
	}
	if got := bodies.Weight([]byte("[" + strings.Repeat("{},", 20000) + "{}]")); got != 0 {
		t.Errorf("60 KB weigh %d", got)
	}
}
