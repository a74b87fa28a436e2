package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// The bindings of a batch fail one by one, each as a create of pods/binding by the same user does.
func TestBindingBatch(t *testing.T) {
	e := apiservertest.New(t)
	const space, path = "/api/v1/namespaces/default", "/apis/minikctl.dev/v1/bindingbatches"
	do(t, e, "POST", space+"/serviceaccounts", `{"metadata":{"name":"default"}}`)
	for _, name := range []string{"a", "b", "c"} {
		do(t, e, "POST", space+"/pods", `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	}
	binding := func(pod, more string) string {
		return `{"namespace":"default","name":"` + pod + `","node":"n","report":{"causes":[7],"stages":[{"name":"filter","start":"2026-01-01T00:00:00Z","took":5}]}` + more + `}`
	}
	batch := func(as string, bindings ...string) (*http.Response, minikctl.BindingBatch) {
		var headers []string
		if as != "" {
			headers = []string{"Impersonate-User", as}
		}
		resp, body := do(t, e, "POST", path, `{"bindings":[`+strings.Join(bindings, ",")+`]}`, headers...)
		var out minikctl.BindingBatch
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return resp, out
	}
	failures := func(b minikctl.BindingBatch) (out []string) {
		for _, f := range b.Failures {
			out = append(out, fmt.Sprintf("%d: %d %s", f.Index, f.Status.Code, f.Status.Message))
		}
		return out
	}

	resp, out := batch(user.KubeScheduler, binding("a", ""), binding("none", ""), binding("a", ""), binding("b", `,"uid":"other"`))
	got := strings.Join(failures(out), "\n")
	if resp.StatusCode != http.StatusCreated || len(out.Failures) != 3 || !strings.Contains(got, `1: 404 pods "none" not found`) ||
		!strings.Contains(got, "3: 409 ") || strings.Contains(got, "0: 409 ") == strings.Contains(got, "2: 409 ") {
		t.Errorf("a batch: %d\n%s", resp.StatusCode, got)
	}
	if s := spanOf(t, e, "a"); s.Actor != user.KubeScheduler || s.Sub != "binding" || len(s.Causes) != 1 || s.Causes[0] != 7 || s.Stages[0].Name != "filter" {
		t.Errorf("the trace is %+v", s)
	}

	if resp, out = batch("", binding("b", "")); resp.StatusCode != http.StatusCreated || len(out.Failures) != 0 {
		t.Errorf("a batch of an administrator: %d %v", resp.StatusCode, failures(out))
	}
	if s := spanOf(t, e, "b"); len(s.Causes) != 0 {
		t.Errorf("the report of a user is in the trace: %+v", s)
	}

	if resp, _ = batch("someone", binding("c", "")); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a batch of another user: %d", resp.StatusCode)
	}
	do(t, e, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"x"},"subjects":[{"kind":"User","name":"someone","apiGroup":"rbac.authorization.k8s.io"}],
		"roleRef":{"kind":"ClusterRole","name":"minikctl:reporter","apiGroup":"rbac.authorization.k8s.io"}}`)
	resp, out = batch("someone", binding("c", ""))
	if resp.StatusCode != http.StatusCreated || len(out.Failures) != 1 || out.Failures[0].Status.Code != http.StatusForbidden {
		t.Errorf("a batch of a user without the right to bind: %d %v", resp.StatusCode, failures(out))
	}
	if resp, _ = batch("", make([]string, 0)...); resp.StatusCode != http.StatusCreated {
		t.Errorf("an empty batch: %d", resp.StatusCode)
	}
	many := make([]string, minikctl.MaxBindings+1)
	for i := range many {
		many[i] = `{"namespace":"default","name":"c","node":"n"}`
	}
	if resp, _ = batch("", many...); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a batch of %d: %d", len(many), resp.StatusCode)
	}
	if _, body := do(t, e, "GET", space+"/pods/c", ""); strings.Contains(body, "nodeName") {
		t.Errorf("the pod is %s", body)
	}
}
