package apiserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// corruptStores are the stores of TestCorruptObject.
func corruptStores(t *testing.T) map[string]func() store.Store {
	return map[string]func() store.Store{
		"memory": func() store.Store { return memory.New() },
		"badger": func() store.Store {
			s, err := badger.Open(badger.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
}

const unsafeDelete = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"

// TestCorruptObject stores values that cannot be decoded: one from before the start, one that replaces an object.
func TestCorruptObject(t *testing.T) {
	for name, open := range corruptStores(t) {
		t.Run(name, func(t *testing.T) {
			s := open()
			damage := func(key string) {
				t.Helper()
				if _, err := s.Write(t.Context(), store.Op{Key: key, Value: []byte("k8s\x00\xff\xff\xff")}); err != nil {
					t.Fatal(err)
				}
			}
			damage("o/core/configmaps/default/old")
			damage("o/core/events/default/old")
			e := apiservertest.New(t, func(c *apiserver.Config) { c.Store = s })
			const maps = "/api/v1/namespaces/default/configmaps"
			cs := clientset(t, e.AdminConfig).CoreV1().ConfigMaps("default")
			ctx := testContext(t)
			for _, n := range []string{"good", "bad"} {
				if _, err := cs.Create(ctx, configMap(n), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w, err := cs.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for _, want := range []string{"ADDED bad", "ADDED good"} {
				ev := <-w.ResultChan()
				if got := string(ev.Type) + " " + ev.Object.(metav1.Object).GetName(); got != want {
					t.Errorf("watch: got %s, want %s", got, want)
				}
			}
			damage("o/core/configmaps/default/bad")
			if ev := <-w.ResultChan(); ev.Type != "DELETED" || ev.Object.(metav1.Object).GetName() != "bad" {
				t.Errorf("watch: got %v of a damaged object", ev)
			}

			resp, body := do(t, e, "GET", maps, "")
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"good"`) || strings.Contains(body, `"bad"`) || strings.Contains(body, `"old"`) {
				t.Errorf("list: got %d %s", resp.StatusCode, body)
			}
			if got, want := resp.Header.Get("Warning"), `299 - "2 configmaps in the store cannot be decoded and are not listed: default/bad, default/old"`; got != want {
				t.Errorf("got warning %s, want %s", got, want)
			}
			if resp, body := do(t, e, "GET", "/api/v1/events", ""); resp.StatusCode != http.StatusOK {
				t.Errorf("list of events: got %d %s", resp.StatusCode, body)
			}
			const corrupt = `"reason":"InternalError"`
			const message = `"message":"Internal error occurred: StorageError: corrupt object, Code: 7, Key: o/core/configmaps/default/old, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=`
			for _, r := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"PUT", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old"}}`}} {
				if resp, body := do(t, e, r[0], maps+"/old", r[1], "Content-Type", "application/json"); resp.StatusCode != 500 || !strings.Contains(body, corrupt) || !strings.Contains(body, message) {
					t.Errorf("%s: got %d %s", r[0], resp.StatusCode, body)
				}
			}
			if resp, body := do(t, e, "POST", maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old"}}`, "Content-Type", "application/json"); resp.StatusCode != http.StatusConflict {
				t.Errorf("create: got %d %s", resp.StatusCode, body)
			}
			if _, body := do(t, e, "GET", "/apis/minikctl.dev/v1/corruptobjects", ""); !strings.Contains(body, `"name":"core:configmaps:default:bad"`) ||
				!strings.Contains(body, `"name":"core:configmaps:default:old"`) || !strings.Contains(body, `"name":"core:events:default:old"`) {
				t.Errorf("corruptobjects: got %s", body)
			}

			testUnsafeDelete(t, e, maps)

			if resp, body := do(t, e, "DELETE", maps+"/old"+unsafeDelete, ""); resp.StatusCode != http.StatusOK ||
				!strings.Contains(body, `"status":"Success"`) || !strings.Contains(body, `"details":{"name":"old","kind":"ConfigMap"}`) {
				t.Errorf("unsafe delete: got %d %s", resp.StatusCode, body)
			}
			if resp, body := do(t, e, "DELETE", maps+"/bad"+unsafeDelete, ""); resp.StatusCode != http.StatusOK {
				t.Errorf("unsafe delete: got %d %s", resp.StatusCode, body)
			}
			if resp, _ := do(t, e, "GET", maps+"/old", ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("after the deletion: got %d", resp.StatusCode)
			}
			if ev := <-w.ResultChan(); ev.Type != "ERROR" || ev.Object.(*metav1.Status).Code != http.StatusGone {
				t.Errorf("watch: got %v after the deletion of a damaged object, want 410", ev)
			}
			if _, err := cs.Create(ctx, configMap("old"), metav1.CreateOptions{}); err != nil {
				t.Errorf("create of a deleted one: %v", err)
			}
			if resp, _ := do(t, e, "GET", maps, ""); resp.Header.Get("Warning") != "" {
				t.Errorf("got warning %s after the deletions", resp.Header.Get("Warning"))
			}
		})
	}
}

// testUnsafeDelete sends the unsafe deletes that Kubernetes refuses.
func testUnsafeDelete(t *testing.T, e *apiservertest.Env, maps string) {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	for path, body := range map[string]string{
		"roles": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"deleter"},` +
			`"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["delete"]}]}`,
		"rolebindings": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"deleter"},` +
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"deleter"},"subjects":[{"kind":"User","name":"alice"}]}`,
	} {
		if resp, body := do(t, e, "POST", rbac+path, body, "Content-Type", "application/json"); resp.StatusCode != http.StatusCreated {
			t.Fatal(resp.Status, body)
		}
	}
	for _, c := range []struct {
		token, path string
		code        int
		want        string
	}{
		{apiservertest.AliceToken, "/old" + unsafeDelete, 403, `configmaps \"old\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: `},
		{apiservertest.AdminToken, "/good" + unsafeDelete, 422, `is exclusively used to delete corrupt object(s), try again by removing this option`},
		{apiservertest.AdminToken, "/absent" + unsafeDelete, 422, `configmaps \"absent\" is invalid: ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: ` +
			`is exclusively used to delete corrupt object(s), try again by removing this option`},
		{apiservertest.AdminToken, "/old" + unsafeDelete + "&gracePeriodSeconds=1", 422, `cannot be set together with .gracePeriodSeconds`},
		{apiservertest.AdminToken, unsafeDelete, 422, `is not allowed with DELETECOLLECTION, try again after removing the option`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "DELETE", e.URL+maps+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		hc, err := rest.HTTPClientFor(e.Config(c.token))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("DELETE %s: got %d %s %v, want %d %s", c.path, resp.StatusCode, body, err, c.code, c.want)
		}
	}
}
