package custom

import (
	"fmt"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestShorten(t *testing.T) {
	word := apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(2))}
	words := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &word}}
	named := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &word}}
	both := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"b"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": words, "b": words, "c": named, "d": word}}
	c := quickSchemaOf(internalOf(t, &both))
	list := func(n int) []any {
		out := []any{"ok"}
		for i := range n {
			out = append(out, fmt.Sprint("word", i))
		}
		return out
	}
	many := map[string]any{}
	for i := range 5000 {
		many[fmt.Sprint("k", i)], many[fmt.Sprint("ok", i)] = "word", "ok"
	}
	for name, tc := range map[string]struct {
		x, was     any
		a, b, c, d int
		left       bool
	}{
		"few":           {map[string]any{"a": list(10), "b": list(10)}, nil, 11, 11, 0, 0, true},
		"many":          {map[string]any{"a": list(5000), "b": list(5000), "c": many, "d": "word"}, nil, 1001, 1001, 6000, 1, false},
		"as before":     {map[string]any{"a": list(5000), "b": list(10)}, map[string]any{"a": list(5000), "b": list(9)}, 5001, 11, 0, 0, true},
		"nothing left":  {map[string]any{"a": list(1000), "b": list(0)}, nil, 1001, 1, 0, 0, false},
		"wrong in size": {map[string]any{"a": list(0)}, nil, 1, 0, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			doubts := maxUncertain
			length := func(x any) int {
				if v := reflect.ValueOf(x); v.IsValid() && v.Kind() != reflect.String {
					return v.Len()
				} else if v.IsValid() {
					return 1
				}
				return 0
			}
			got := c.shorten(tc.x, tc.was, &doubts).(map[string]any)
			sizes := []int{length(got["a"]), length(got["b"]), length(got["c"]), length(got["d"])}
			if want := []int{tc.a, tc.b, tc.c, tc.d}; !reflect.DeepEqual(sizes, want) || doubts > 0 != tc.left {
				t.Errorf("%v, %d left; want %v", sizes, doubts, want)
			}
		})
	}
}
