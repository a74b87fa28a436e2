package apiserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestFieldWarnings: the write that adds an unsupported field gets a warning, later writes do not.
func TestFieldWarnings(t *testing.T) {
	e := apiservertest.New(t, func(cfg *apiserver.Config) {
		cfg.PodWarnings = func(_ context.Context, s *corev1.PodSpec) []string {
			var out []string
			if s.HostPID {
				out = append(out, "spec.hostPID: no")
			}
			if len(s.EphemeralContainers) > 0 {
				out = append(out, "spec.ephemeralContainers: no")
			}
			return out
		}
	})
	const (
		pods = "/api/v1/namespaces/default/pods"
		sets = "/apis/apps/v1/namespaces/default/deployments"
		web  = `"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{`
	)
	for _, c := range []struct {
		what, method, path, body string
		want                     string // the texts, separated by commas; "" for none
	}{
		{"account", "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`, ""},
		{"pod", "POST", pods, `{"metadata":{"name":"p"},"spec":{"hostPID":true,"containers":[{"name":"c","image":"i"}]}}`, "spec.hostPID: no"},
		{"label", "PATCH", pods + "/p", `{"metadata":{"labels":{"a":"b"}}}`, ""},
		{"ephemeral container", "PATCH", pods + "/p/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, "spec.ephemeralContainers: no"},
		{"status", "PATCH", pods + "/p/status", `{"status":{"phase":"Running"}}`, ""},
		{"template", "POST", sets, `{` + web + `"containers":[{"name":"c","image":"i"}]}}}}`, ""},
		{"changed template", "PATCH", sets + "/web", `{"spec":{"template":{"spec":{"hostPID":true}}}}`, "spec.template.spec.hostPID: no"},
		{"changed again", "PATCH", sets + "/web", `{"spec":{"replicas":2}}`, ""},
		{"scale", "PATCH", sets + "/web/scale", `{"spec":{"replicas":3}}`, ""},
	} {
		content := "application/json"
		if c.method == "PATCH" {
			content = "application/merge-patch+json"
		}
		resp, body := do(t, e, c.method, c.path, c.body, "Content-Type", content)
		if resp.StatusCode >= 300 {
			t.Fatalf("%s: %s", c.what, body)
		}
		var got []string
		for _, w := range resp.Header.Values("Warning") {
			got = append(got, strings.Trim(strings.TrimPrefix(w, "299 - "), `"`))
		}
		want := slices.DeleteFunc(strings.Split(c.want, ","), func(s string) bool { return s == "" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: warnings %q, want %q", c.what, got, want)
		}
	}
}
