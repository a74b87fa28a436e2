package cli

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refuses is a validation that refuses everything.
type refuses struct{ error }

func (r refuses) ValidateBytes([]byte) error { return r.error }

// TestServedKinds checks which manifests are validated before they are applied.
func TestServedKinds(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	refused := errors.New("refused")
	for _, c := range []struct {
		name, manifest string
		want           error
	}{
		{"a kind of the server", `{"apiVersion":"v1","kind":"Pod"}`, refused},
		{"a kind that a definition may define", `{"apiVersion":"example.com/v1","kind":"Site"}`, nil},
		{"no kind", `{"apiVersion":"v1"}`, refused},
		{"no JSON", `{`, refused},
	} {
		if err := (servedKinds{refuses{refused}, mapper}).ValidateBytes([]byte(c.manifest)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}
