package verbs

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// items returns n JSON values separated by commas.
func items(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return strings.Join(out, ",")
}

// TestCheckStrategic patches pods with lists just as long as allowed, and longer.
func TestCheckStrategic(t *testing.T) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	const variable, finalizer = `{"name":"v%d"}`, `"example.com/f%d"`
	env := func(fields string) string {
		return `{"spec":{"containers":[{"name":"c",` + fields + `}]}}`
	}
	for _, c := range []struct {
		name, object, patch string
		refused             bool
	}{
		{"one of 2498", env(`"env":[` + items(2498, variable) + `]`), env(`"env":[{"name":"v0"}]`), false},
		{"one of 2499", env(`"env":[` + items(2499, variable) + `]`), env(`"env":[{"name":"v0"}]`), true},
		{"a new list", env(`"image":"i"`), env(`"env":[` + items(9000, variable) + `]`), false},
		{"a list without merge key", env(`"args":[` + items(9000, `"%d"`) + `]`), env(`"args":[` + items(9000, `"%d"`) + `]`), false},
		{"another field", env(`"env":[` + items(9000, variable) + `]`), env(`"image":"i"`), false},
		{"an order", env(`"env":[` + items(1000, variable) + `]`), env(`"$setElementOrder/env":[` + items(5249, variable) + `]`), false},
		{"a longer order", env(`"env":[` + items(1000, variable) + `]`), env(`"$setElementOrder/env":[` + items(5250, variable) + `]`), true},
		{"an order of a new list", env(`"image":"i"`), env(`"$setElementOrder/env":[` + items(2000, variable) + `],"env":[` + items(2000, variable) + `]`), true},
		{"deletions", env(`"env":[` + items(2500, variable) + `]`), env(`"env":[{"$patch":"delete","name":"v0"}]`), true},
		{
			"the same item again and again", env(`"env":[` + items(1000, variable) + `]`),
			`{"spec":{"containers":[` + items(100, `{"name":"c","env":[{"name":"w%d"}]}`) + `]}}`, true,
		},
		{"finalizers", `{"metadata":{"finalizers":[` + items(2499, finalizer) + `]}}`, `{"metadata":{"finalizers":["example.com/z"]}}`, false},
		{"more finalizers", `{"metadata":{"finalizers":[` + items(2500, finalizer) + `]}}`, `{"metadata":{"finalizers":["example.com/z"]}}`, true},
		{"deleted finalizers", `{"metadata":{"finalizers":[` + items(9000, finalizer) + `]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f0"]}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object, patch map[string]any
			for text, into := range map[string]*map[string]any{c.object: &object, c.patch: &patch} {
				if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			err := checkStrategic(object, patch, schema)
			if c.refused != (err != nil) {
				t.Fatalf("got %v", err)
			}
			if err != nil && (!apierrors.IsRequestEntityTooLargeError(err) || !strings.HasSuffix(err.Error(), "pairs of list items, the limit is 6250000")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
