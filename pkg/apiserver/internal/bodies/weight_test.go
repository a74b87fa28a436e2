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
		`[]`:                      2,
		`1`:                       1,
		`null`:                    32,
		`"a,b{[\"{\\"`:            1,
		`{"a":1}`:                 34,
		`{"a" : "b", "c":[1,-2]}`: 32 + 2 + 1 + 2 + 2,
		`[[],{},true]`:            2 + 2 + 32 + 1,
		`"unterminated [[[`:       1,
		`]]]]}}`:                  0,
		strings.Repeat("[", 20000) + strings.Repeat(`{},`, 1000): 2 * 10001, // too deep to be decoded
	} {
		if got := bodies.Weight([]byte(data + space)); got != want {
			t.Errorf("%.50s: got %d, want %d", data, got, want)
		}
	}
	if got := bodies.Weight([]byte("[" + strings.Repeat("{},", 20000) + "{}]")); got != 0 {
		t.Errorf("60 KB weigh %d", got)
	}
}
