package apiserver_test

import (
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// A created Binding assigns its pod to a node. A second one is refused.
func TestBindings(t *testing.T) {
	e := apiservertest.New(t)
	const space = "/api/v1/namespaces/default"
	binding := func(name, node string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + name + `"},"target":{"kind":"Node","name":"` + node + `"}}`
	}
	do(t, e, "POST", space+"/serviceaccounts", `{"metadata":{"name":"default"}}`)
	do(t, e, "POST", space+"/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	for _, c := range []struct {
		path, body string
		code       int
		has        string
	}{
		{space + "/bindings", binding("p", "a"), 201, `"status":"Success"`},
		{space + "/bindings", binding("p", "b"), 409, `pod p is already assigned to node \"a\"`},
		{space + "/bindings", binding("none", "b"), 404, `pods \"none\" not found`},
		{space + "/bindings", binding("p", ""), 500, `target.name: Required value`},
		{"/api/v1/namespaces/other/bindings", strings.Replace(binding("p", "a"), `"name"`, `"namespace":"default","name"`, 1), 400, "does not match the namespace"},
	} {
		if resp, body := do(t, e, "POST", c.path, c.body); resp.StatusCode != c.code || !strings.Contains(body, c.has) {
			t.Errorf("%s: %d %s, want %d %s", c.body, resp.StatusCode, body, c.code, c.has)
		}
	}
	if _, body := do(t, e, "GET", space+"/pods/p", ""); !strings.Contains(body, `"nodeName":"a"`) {
		t.Errorf("the pod is %s", body)
	}
	if resp, _ := do(t, e, "GET", space+"/bindings", ""); resp.StatusCode != 405 {
		t.Errorf("a list of Bindings: %d", resp.StatusCode)
	}
}
