package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// Rows also warn about updates of status and scale, and about deletes. Errors name fields as in the request's version.
func TestRowWarnings(t *testing.T) {
	e := apiservertest.New(t)
	const (
		preserved = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
		grace     = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
		jobs      = "/apis/batch/v1/namespaces/default/jobs"
		ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
		sets      = "/apis/apps/v1/namespaces/default/deployments"
		job       = `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
		web       = `{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":-1,"containers":[{"name":"c","image":"i"}]}}}}`
		balanced  = `{"status":{"loadBalancer":{"ingress":[{"hostname":"a"}]}}}`
	)
	for _, c := range []struct {
		what, method, path, body string
		want                     string
	}{
		{"job", "POST", jobs, job, ""},
		{"delete", "DELETE", jobs + "/j", "", preserved},
		{"absent", "DELETE", jobs + "/none", "", preserved},
		{"delete with a policy", "DELETE", jobs + "/none", `{"propagationPolicy":"Background"}`, ""},
		{"all", "DELETE", jobs, "", preserved},
		{"ingress", "POST", ingresses, `{"metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":1}}}}}`, ""},
		{"name in a status", "PATCH", ingresses + "/i/status", balanced, ""},
		{"address in a status", "PATCH", ingresses + "/i/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"2001:DB8::1"}]}}}`,
			`status.loadBalancer.ingress[0]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")`},
		{"deployment", "POST", sets, web, grace},
		{"scale", "PATCH", sets + "/web/scale", `{"spec":{"replicas":3}}`, grace},
		{"status", "PATCH", sets + "/web/status", `{"status":{"replicas":3}}`, ""},
	} {
		content := "application/json"
		if c.method == "PATCH" {
			content = "application/merge-patch+json"
		}
		resp, body := do(t, e, c.method, c.path, c.body, "Content-Type", content)
		if resp.StatusCode >= 300 && resp.StatusCode != 404 {
			t.Fatalf("%s: %s", c.what, body)
		}
		var got []string
		for _, w := range resp.Header.Values("Warning") {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(w, `299 - "`), `"`))
		}
		got = slices.DeleteFunc(got, func(s string) bool { return strings.Contains(s, "nothing happens") }) // about missing controllers
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: warnings %q, want %q", c.what, got, c.want)
		}
	}

	const event = `{"metadata":{"name":"e"},"regarding":{"namespace":"default"},"involvedObject":{"namespace":"default"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingInstance":"i","action":"a","reason":"r","type":"Normal"}`
	for group, field := range map[string]string{"/api/v1": "reportingComponent", "/apis/events.k8s.io/v1": "reportingController"} {
		resp, body := do(t, e, "POST", group+"/namespaces/default/events", event, "Content-Type", "application/json")
		if resp.StatusCode != 422 || !strings.Contains(string(body), `"field":"`+field+`"`) {
			t.Errorf("%s: got %d %s, want an error of %s", group, resp.StatusCode, body, field)
		}
	}
}
