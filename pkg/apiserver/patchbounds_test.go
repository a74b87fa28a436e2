package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestPatchBounds sends patches just within and just beyond each bound.
func TestPatchBounds(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	const object = "/api/v1/namespaces/default/configmaps/x"
	finalizers := make([]string, 2499)
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf(`"example.com/f%d"`, i)
	}
	body := `{"metadata":{"name":"x","finalizers":[` + strings.Join(finalizers, ",") + `]},"data":{"k":"v"}}`
	if resp, answer := do(t, e, http.MethodPost, strings.TrimSuffix(object, "/x"), body, "Content-Type", "application/json"); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %.300s", resp.Status, answer)
	}
	deep := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	operations := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/data/k","value":"v"},`, n), ",") + "]"
	}
	const merge, steps, strategic = "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json"
	for _, c := range []struct {
		name, media, body string
		code              int
		want              string
	}{
		{"merge, 10000 deep", merge, deep(10000), http.StatusOK, `"name":"x"`},
		{"merge, 10001 deep", merge, deep(10001), http.StatusBadRequest, "exceeded max depth"},
		{"10000 operations", steps, operations(10000), http.StatusOK, `"name":"x"`},
		{"10001 operations", steps, operations(10001), http.StatusRequestEntityTooLarge, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"copies of 4 MB", steps, "[" + strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/metadata/finalizers","path":"/z"},`, 80), ",") + "]", http.StatusUnprocessableEntity, ""},
		{"2500 finalizers", strategic, `{"metadata":{"finalizers":["example.com/z"]}}`, http.StatusOK, "example.com/z"},
		{"2501 finalizers", strategic, `{"metadata":{"finalizers":["example.com/y"]}}`, http.StatusRequestEntityTooLarge, "would compare 6255001 pairs of list items, the limit is 6250000"},
	} {
		resp, answer := do(t, e, http.MethodPatch, object, c.body, "Content-Type", c.media)
		if resp.StatusCode != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s: got %s %.300s", c.name, resp.Status, answer)
		}
	}
}
