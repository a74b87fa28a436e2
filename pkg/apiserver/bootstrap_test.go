package apiserver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestDefaults reads objects that every cluster has, and deletes one that the server creates again.
func TestDefaults(t *testing.T) {
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
	eventually(t, "the deleted FlowSchema is recreated", func() bool {
		resp, _ := do(t, e, "GET", schemas+"probes", "")
		return resp.StatusCode == 200
	})
	if resp, body := do(t, e, "PATCH", schemas+"exempt", `{"spec":{"matchingPrecedence":7}}`, "Content-Type", "application/merge-patch+json"); resp.StatusCode != 422 ||
		!strings.Contains(body, "spec of 'exempt' must equal the fixed value") {
		t.Errorf("update of a mandatory FlowSchema: %s", body)
	}
}

// fullStore is a store on a full disk: only deletes succeed.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	if s.full.Load() && slices.ContainsFunc(ops, func(op store.Op) bool { return op.Value != nil }) {
		return nil, store.ErrNoSpace
	}
	return s.Store.Write(ctx, ops...)
}

// TestReadsWithReadOnlyStore reads every kind of defaults, and deletes a stored object beside them, while the store takes no writes.
func TestReadsWithReadOnlyStore(t *testing.T) {
	state := &fullStore{Store: memory.New()}
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Store = state })
	const configMaps = "/api/v1/namespaces/kube-system/configmaps"
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "kube-system"}}
	if _, err := e.Client("test").Create(t.Context(), client.Target{Resource: client.ConfigMaps, Namespace: "kube-system"}, large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	state.full.Store(true)
	for _, path := range []string{
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/view",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
		"/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
		"/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1",
		configMaps + "/extension-apiserver-authentication",
		"/api/v1/namespaces/default/services/kubernetes",
	} {
		if resp, body := do(t, e, "GET", path, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s: %s", path, resp.Status, body)
		}
	}
	if resp, body := do(t, e, "DELETE", configMaps+"/large", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("delete: %s: %s", resp.Status, body)
	}
	state.full.Store(false)
}

// TestKubernetesServiceIsRecreated deletes all Services of the namespace default, as kubectl delete all --all does.
func TestKubernetesServiceIsRecreated(t *testing.T) {
	e := apiservertest.New(t)
	const services = "/api/v1/namespaces/default/services"
	_, before := do(t, e, "GET", services+"/kubernetes", "")
	for _, path := range []string{services + "/kubernetes", services} {
		if resp, body := do(t, e, "DELETE", path, ""); resp.StatusCode != http.StatusOK {
			t.Fatalf("delete: %s: %s", resp.Status, body)
		}
		eventually(t, "the Service kubernetes is recreated", func() bool {
			resp, body := do(t, e, "GET", services+"/kubernetes", "")
			return resp.StatusCode == http.StatusOK && body != before && strings.Contains(body, `"clusterIP":"10.96.0.1"`)
		})
		_, before = do(t, e, "GET", services+"/kubernetes", "")
	}
}
