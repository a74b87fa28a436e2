package codec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestTextEqualsFinish checks that a list converted item by item equals one that is converted as a whole.
func TestTextEqualsFinish(t *testing.T) {
	odd := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "odd", Namespace: "n", Labels: map[string]string{}, Finalizers: []string{"a/b", "]", ","}},
		Data: map[string]string{
			"lines": "one\n\n  two\n", "long": strings.Repeat("many words ", 30), "brackets": "]},{[", "quote": `"\`, "unicode": "ü\u2028\t", "yaml": "- a: b\n- c", "n": "1",
		},
	}
	its, list := items(3)
	sets := map[string][]*cache.Item{"none": nil, "one": its[:1], "odd": append(its[:2:2], cache.NewItem(objects.Key{Namespace: "n", Name: "odd"}, 7, odd), its[2])}
	lists := map[string]func([]*cache.Item) (Pieces, error){
		"List": func(its []*cache.Item) (Pieces, error) {
			return Kind{Resource: &configMaps}.List(its, list.ListMeta, JSON)
		},
		"Partial": func(its []*cache.Item) (Pieces, error) { return PartialList(its, list.ListMeta, "v1", JSON) },
	}
	for set, its := range sets {
		for name, make := range lists {
			for _, m := range []Media{{Format: YAML}, {Format: JSON, Pretty: true}} {
				pieces, err := make(its)
				if err != nil {
					t.Fatal(err)
				}
				want, err := Finish(joined(t, pieces), m)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(joined(t, pieces.Text(m)))); diff != "" {
					t.Errorf("%s of %s items in %s: -want +got\n%s", name, set, m.Format, diff)
				}
			}
		}
	}
}

// TestTextIsInPieces checks that a list has a part for each of its items.
func TestTextIsInPieces(t *testing.T) {
	its, list := items(4)
	for _, m := range []Media{{Format: YAML}, {Format: JSON, Pretty: true}} {
		pieces, err := Kind{Resource: &configMaps}.List(its, list.ListMeta, JSON)
		if err != nil {
			t.Fatal(err)
		}
		parts := 0
		for b, err := range pieces.Text(m) {
			if parts++; err != nil || strings.Count(string(b), "namespace") > 1 {
				t.Errorf("%s: part %d is %q, %v", m.Format, parts, b, err)
			}
		}
		if parts < len(its) {
			t.Errorf("%s: got %d parts", m.Format, parts)
		}
	}
}

func TestTextEndsWithAnError(t *testing.T) {
	wrong := errors.New("wrong")
	var pieces Pieces = func(yield func([]byte, error) bool) {
		_ = yield([]byte(`{"items":[`), nil) && yield([]byte("{}"), nil) && yield(nil, wrong)
	}
	if _, err := pieces.Text(Media{Format: YAML}).Bytes(); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}
