package apiserver_test

import (
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestFurniture asks for the objects that every cluster has of a group, once somebody asks.
func TestFurniture(t *testing.T) {
	e := apiservertest.New(t)
	for _, c := range []struct{ path, accept, want string }{
		{"/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", "", `"kube-aggregator.kubernetes.io/automanaged":"onstart"`},
		{"/apis/apiregistration.k8s.io/v1/apiservices/v1.", "", `"spec":{"version":"v1","groupPriorityMinimum":18000,"versionPriority":1},"status":{"conditions":[{"type":"Available","status":"True"`},
		{"/apis/apiregistration.k8s.io/v1/apiservices/v1.minikctl.dev", "", `"groupPriorityMinimum":1000`},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all", "", `"matchingPrecedence":10000`},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt", "", `"type":"Exempt"`},
	} {
		if _, body := do(t, e, "GET", c.path, ""); !strings.Contains(body, c.want) {
			t.Errorf("%s: got %s, want %s", c.path, body, c.want)
		}
	}
	const schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/"
	if resp, body := do(t, e, "DELETE", schemas+"probes", ""); resp.StatusCode != 200 {
		t.Errorf("delete: %s", body)
	}
	if resp, _ := do(t, e, "GET", schemas+"probes", ""); resp.StatusCode != 200 {
		t.Errorf("what was deleted is not there again: %s", resp.Status)
	}
	if resp, body := do(t, e, "PATCH", schemas+"exempt", `{"spec":{"matchingPrecedence":7}}`, "Content-Type", "application/merge-patch+json"); resp.StatusCode != 422 ||
		!strings.Contains(body, "spec of 'exempt' must equal the fixed value") {
		t.Errorf("a change of what is fixed: %s", body)
	}
}
