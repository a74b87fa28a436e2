package apiserver_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestServiceWarnings: the write that adds what is not served gets a warning, later writes do not.
func TestServiceWarnings(t *testing.T) {
	e := apiservertest.New(t, func(cfg *apiserver.Config) {
		cfg.ServiceWarnings = func(s *corev1.ServiceSpec) []string {
			if len(s.Ports) > 1 {
				return []string{"spec.ports: no"}
			}
			return nil
		}
	})
	const (
		services = "/api/v1/namespaces/default/services"
		one      = `{"name":"a","port":80}`
		two      = one + `,{"name":"b","port":81}`
	)
	for _, c := range []struct {
		what, method, path, body string
		want                     []string
	}{
		{"create", "POST", services, `{"metadata":{"name":"both"},"spec":{"ports":[` + two + `]}}`, []string{`299 - "spec.ports: no"`}},
		{"create without it", "POST", services, `{"metadata":{"name":"web"},"spec":{"ports":[` + one + `]}}`, nil},
		{"added port", "PATCH", services + "/web", `{"spec":{"ports":[` + two + `]}}`, []string{`299 - "spec.ports: no"`}},
		{"label", "PATCH", services + "/web", `{"metadata":{"labels":{"a":"b"}}}`, nil},
		{"status", "PATCH", services + "/web/status", `{"status":{"loadBalancer":{}}}`, nil},
	} {
		content := "application/json"
		if c.method == "PATCH" {
			content = "application/merge-patch+json"
		}
		resp, body := do(t, e, c.method, c.path, c.body, "Content-Type", content)
		if resp.StatusCode >= 300 {
			t.Fatalf("%s: %s", c.what, body)
		}
		if got := resp.Header.Values("Warning"); !slices.Equal(got, c.want) {
			t.Errorf("%s: warnings %q, want %q", c.what, got, c.want)
		}
	}
}
