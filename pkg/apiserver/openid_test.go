package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

func TestOpenIDDiscovery(t *testing.T) {
	e := apiservertest.New(t)
	accounts := clientset(t, e.AdminConfig).CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if _, err := accounts.Create(testContext(t), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := accounts.CreateToken(testContext(t), "x", &authenticationv1.TokenRequest{}, metav1.CreateOptions{FieldManager: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.ManagedFields) != 1 {
		t.Fatalf("got managedFields %+v", made.ManagedFields)
	}
	m := made.ManagedFields[0]
	if m.Manager != "me" || m.Subresource != "token" || string(m.FieldsV1.Raw) != `{"f:spec":{"f:expirationSeconds":{}}}` {
		t.Errorf("got managedFields %s %s %s", m.Manager, m.Subresource, m.FieldsV1.Raw)
	}

	token := []string{"Authorization", "Bearer " + made.Status.Token}
	resp, body := do(t, e, "GET", "/.well-known/openid-configuration", "", token...)
	var conf struct {
		Issuer string
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal([]byte(body), &conf); err != nil || conf.Issuer != made.Spec.Audiences[0] {
		t.Errorf("got %s %s", resp.Status, body)
	}
	path, ok := strings.CutPrefix(conf.Keys, e.URL)
	if !ok {
		t.Fatalf("the keys are at %s", conf.Keys)
	}
	resp, body = do(t, e, "GET", path, "", token...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/jwk-set+json" || !strings.Contains(body, `"alg":"ES256"`) {
		t.Errorf("got %s %s %s", resp.Status, resp.Header.Get("Content-Type"), body)
	}
	if resp, _ = do(t, e, "GET", path, "", "Authorization", "Bearer "+apiservertest.BobToken); resp.StatusCode != 403 {
		t.Errorf("a user that is not a ServiceAccount: got %s", resp.Status)
	}
}
