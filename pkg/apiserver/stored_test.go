package apiserver_test

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

// TestBackupOverHTTP reads a backup as an administrator and as a user without permissions, and decodes each object in it.
func TestBackupOverHTTP(t *testing.T) {
	e := apiservertest.New(t)
	get := func(token string) *http.Response {
		hc, err := rest.HTTPClientFor(e.Config(token))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(testContext(t), http.MethodGet, e.Config(token).Host+apiserver.BackupPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	if res := get(apiservertest.AliceToken); res.StatusCode != http.StatusForbidden {
		t.Errorf("a user without permissions: got %s, want %d", res.Status, http.StatusForbidden)
	}
	res := get(apiservertest.AdminToken)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("an administrator: got %s", res.Status)
	}
	readable := apiserver.Readable(builtin.Resources())
	sum, err := backup.Read(res.Body, func(entry store.Entry) error { return readable(entry.Key, entry.Value) })
	if err != nil || sum.Objects == 0 {
		t.Errorf("got a backup of %d objects, %v", sum.Objects, err)
	}
	for _, key := range []string{"o/core/pods/default/p", "o/example.com/widgets/default/w"} {
		if readable(key, []byte("no object")) == nil {
			t.Errorf("%s: a value that is no object is readable", key)
		}
	}
}
