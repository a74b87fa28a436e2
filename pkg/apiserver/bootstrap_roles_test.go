package apiserver_test

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestDeletedDefaultBinding deletes a default binding, which removes its rights until the next start, and
// annotates another one with autoupdate=false, which the server then does not change.
func TestDeletedDefaultBinding(t *testing.T) {
	state := memory.New()
	t.Cleanup(func() { _ = state.Close() })
	begin := func(name string, do func(t *testing.T, e *apiservertest.Env, want func(what, token string, code int))) {
		t.Run(name, func(t *testing.T) {
			e := apiservertest.New(t, func(c *apiserver.Config) { c.Store = keptOpen{state} })
			do(t, e, func(path, token string, code int) {
				t.Helper()
				resp, body := as(t, e, path, token)
				if resp != code {
					t.Errorf("%s as %q: %d, want %d: %s", path, token, resp, code, body)
				}
			})
		})
	}
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
	const merge = "application/merge-patch+json"
	begin("take away", func(t *testing.T, e *apiservertest.Env, want func(string, string, int)) {
		want("/api", apiservertest.BobToken, 200)
		want("/version", "", 200)
		want(bindings+"system:discovery", apiservertest.AdminToken, 200)
		want("/api", apiservertest.BobToken, 200)
		if resp, body := do(t, e, "DELETE", bindings+"system:discovery", ""); resp.StatusCode != 200 {
			t.Fatal(body)
		}
		want("/api", apiservertest.BobToken, 403)
		want("/version", apiservertest.BobToken, 200) // by another binding
		want("/api", apiservertest.AdminToken, 200)
		patch := `{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"subjects":[]}`
		if resp, body := do(t, e, "PATCH", bindings+"system:public-info-viewer", patch, "Content-Type", merge); resp.StatusCode != 200 {
			t.Fatal(body)
		}
		want("/version", "", 403)
		patch = `{"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]}`
		if resp, body := do(t, e, "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user", patch, "Content-Type", merge); resp.StatusCode != 200 {
			t.Fatal(body)
		}
		want("/metrics", apiservertest.BobToken, 200)
	})
	begin("after another start", func(t *testing.T, e *apiservertest.Env, want func(string, string, int)) {
		want("/api", apiservertest.BobToken, 200)     // created again
		want("/version", "", 403)                     // not changed
		want("/metrics", apiservertest.BobToken, 200) // not removed
		// The server reconciles the roles in the background.
		eventually(t, "a rule that was removed from a role is restored", func() bool {
			resp, _ := do(t, e, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
				`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"nonResourceAttributes":{"path":"/api","verb":"get"}}}`,
				"Authorization", "Bearer "+apiservertest.BobToken)
			return resp.StatusCode == http.StatusCreated
		})
	})
}

// as sends a GET with a token, "" for none.
func as(t *testing.T, e *apiservertest.Env, path, token string) (int, string) {
	t.Helper()
	other := *e
	other.AdminConfig = rest.AnonymousClientConfig(e.AdminConfig)
	other.AdminConfig.BearerToken = token
	resp, body := do(t, &other, http.MethodGet, path, "")
	return resp.StatusCode, body
}
