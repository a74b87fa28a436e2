package bodies_test

import (
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
)

// TestWeight checks what weighs how much, in bodies that are long enough to be weighed.
func TestWeight(t *testing.T) {
	space := strings.Repeat(" ", 1<<20)
	for data, want := range map[string]int{
		``:                        0,
		`{}`:                      32,
		`[]`:                      4,
		`1`:                       2,
		`null`:                    32,
		`"a,b{[\"{\\"`:            2,
		`{"a":1}`:                 36,
		`{"a" : "b", "c":[1,-2]}`: 32 + 4 + 2 + 4 + 4,
		`[[],{},true]`:            4 + 4 + 32 + 2,
		`"unterminated [[[`:       2,
		`]]]]}}`:                  0,
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{"." : {},"k:{\"b\":1}":{}}}}]}}`: 4*32 + 4 + 2*3 + 3*(4+2),
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":[{},{}],"a":{}}}]}}`:              4*32 + 4 + 2*3 + 2 + 4 + 2*32 + 2 + 32,
		`{"metadata":{"managedFields":[{"fieldsV1":{}},{"fieldsV1":{"f:a":{}}}]},"f:a":{}}`: 6*32 + 4 + 2*4 + 4 + 2 + 2 + 32,
		`{"spec":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}`:                              5*32 + 4 + 2*4,
		`{"metadata":{"managedFields":{"x":{"fieldsV1":{"f:a":{}}}}}}`:                      6*32 + 2*5,
		strings.Repeat("[", 20000) + strings.Repeat(`{},`, 1000):                            4 * 10001, // too deep to be decoded
	} {
		if got := bodies.Weight([]byte(data + space)); got != want {
			t.Errorf("%.50s: got %d, want %d", data, got, want)
		}
	}
	if got := bodies.Weight([]byte("[" + strings.Repeat("{},", 20000) + "{}]")); got != 0 {
		t.Errorf("60 KB weigh %d", got)
	}
}
