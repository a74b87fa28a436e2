package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestTooLargeToStore writes objects that are larger than the store takes, with each verb: the answer is that of Kubernetes, unless
// the object is not valid either, and the stored object stays as it was. A dry run is refused, too.
func TestTooLargeToStore(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	const maps, things = "/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/namespaces/default/things"
	keys := func(n int) string { // of 200 bytes
		return fill(n*206, func(i int) string { return fmt.Sprintf(`"k%0199d":"v"`, i) })
	}
	configMap := func(name, more string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"k":"v",` + more + `}}`
	}
	thing := func(name, more string) string {
		return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"},"spec":{"free":{"k":"v",` + more + `}}}`
	}
	const asJSON, merge, strategic = "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"
	send := func(method, path, media, body string) (int, string) {
		resp, answer := do(t, e, method, path, body, "Content-Type", media)
		return resp.StatusCode, answer
	}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, c := range []struct{ path, body string }{{crds, thingsCRD}, {maps, configMap("x", keys(10))}, {things, thing("x", keys(10))}} {
		if code, answer := send(http.MethodPost, c.path, asJSON, c.body); code != http.StatusCreated {
			t.Fatalf("%s: %d %.300s", c.path, code, answer)
		}
	}
	_, before := send(http.MethodGet, maps+"/x", asJSON, "")
	roles, role := "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", // whose names have no limit
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"`+strings.Repeat("r", 70_000)+`"}}`
	const many, tooLarge = 9000, "etcdserver: request is too large"
	for _, c := range []struct {
		method, path, media, body string
		code                      int
		want                      string
	}{
		{http.MethodPost, maps, asJSON, configMap("y", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPost, maps + "?dryRun=All", asJSON, configMap("y", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPost, maps, asJSON, configMap("y", `"a b":"c",`+keys(many)), http.StatusUnprocessableEntity, "a valid config key must consist"},
		{http.MethodPut, maps + "/x", asJSON, configMap("x", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPatch, maps + "/x", merge, configMap("x", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPatch, maps + "/x", strategic, configMap("x", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPost, things, asJSON, thing("y", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPatch, things + "/x", merge, thing("x", keys(many)), http.StatusInternalServerError, tooLarge},
		{http.MethodPost, roles, asJSON, role, http.StatusInternalServerError, tooLarge},
		{http.MethodPost, roles + "?dryRun=All", asJSON, role, http.StatusInternalServerError, tooLarge},
		{http.MethodPost, maps, asJSON, configMap("z", keys(many/4)), http.StatusCreated, `"name":"z"`},
	} {
		if code, answer := send(c.method, c.path, c.media, c.body); code != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s %s %s: got %d %.300s, want %d %s", c.method, c.path, c.media, code, answer, c.code, c.want)
		}
	}
	if _, after := send(http.MethodGet, maps+"/x", asJSON, ""); after != before {
		t.Errorf("the object has changed: %.300s", after)
	}
}
