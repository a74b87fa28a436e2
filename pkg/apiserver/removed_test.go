package apiserver_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestRemovedVersions creates objects in versions that current Kubernetes no longer serves, and reads them in current
// versions.
func TestRemovedVersions(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	admin := []string{"Authorization", "Bearer " + apiservertest.AdminToken}
	for _, c := range []struct{ path, body, current, has, warning string }{
		{"/apis/networking.k8s.io/v1beta1/namespaces/default/ingresses", `{"metadata":{"name":"a"},"spec":{"backend":{"serviceName":"s","servicePort":"http"}}}`,
			"/apis/networking.k8s.io/v1/namespaces/default/ingresses/a", `"defaultBackend":{"service":{"name":"s","port":{"name":"http"}}}`,
			"networking.k8s.io/v1beta1 Ingress is deprecated in v1.19+, unavailable in v1.22+; use networking.k8s.io/v1 Ingress"},
		{"/apis/extensions/v1beta1/namespaces/default/networkpolicies", `{"metadata":{"name":"a"},"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`,
			"/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/a", `"podSelector":{"matchLabels":{"a":"b"}}`,
			"extensions/v1beta1 NetworkPolicy is deprecated in v1.9+, unavailable in v1.16+; use networking.k8s.io/v1 NetworkPolicy"},
		{"/apis/storage.k8s.io/v1beta1/storageclasses", `{"metadata":{"name":"a"},"provisioner":"p.io/x"}`,
			"/apis/storage.k8s.io/v1/storageclasses/a", `"provisioner":"p.io/x"`,
			"storage.k8s.io/v1beta1 StorageClass is deprecated in v1.19+, unavailable in v1.22+; use storage.k8s.io/v1 StorageClass"},
		{"/apis/discovery.k8s.io/v1beta1/namespaces/default/endpointslices",
			`{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":[{"addresses":["10.1.2.3"],"topology":{"topology.kubernetes.io/zone":"z"}}]}`,
			"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/a", `"zone":"z"`,
			"discovery.k8s.io/v1beta1 EndpointSlice is deprecated in v1.21+, unavailable in v1.25+; use discovery.k8s.io/v1 EndpointSlice"},
		{"/apis/rbac.authorization.k8s.io/v1beta1/namespaces/default/roles", `{"metadata":{"name":"a"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
			"/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/a", `"resources":["pods"]`,
			"rbac.authorization.k8s.io/v1beta1 Role is deprecated in v1.17+, unavailable in v1.22+; use rbac.authorization.k8s.io/v1 Role"},
		{"/apis/node.k8s.io/v1beta1/runtimeclasses", `{"metadata":{"name":"a"},"handler":"runc"}`,
			"/apis/node.k8s.io/v1/runtimeclasses/a", `"handler":"runc"`, "node.k8s.io/v1beta1 RuntimeClass is deprecated in v1.22+, unavailable in v1.25+"},
	} {
		resp, body := do(t, e, "POST", c.path, c.body, append(admin, "Content-Type", "application/json")...)
		if resp.StatusCode != 201 || !strings.Contains(body, `"managedFields":[{`) {
			t.Errorf("%s: got %s %s", c.path, resp.Status, body)
		}
		if got := resp.Header.Get("Warning"); got != `299 - "`+c.warning+`"` {
			t.Errorf("%s: got warning %s", c.path, got)
		}
		if resp, body = do(t, e, "GET", c.current, "", admin...); resp.StatusCode != 200 || !strings.Contains(body, c.has) {
			t.Errorf("%s: got %s %s", c.current, resp.Status, body)
		}
		version, _, _ := strings.Cut(strings.TrimPrefix(c.path, "/apis/"), "/v1beta1/")
		if resp, body = do(t, e, "GET", "/openapi/v3/apis/"+version+"/v1beta1", "", admin...); resp.StatusCode != 200 || !strings.Contains(body, "v1beta1") {
			t.Errorf("%s: the schema: got %s", c.path, resp.Status)
		}
	}
}

// TestReviewsInRemovedVersions creates reviews in old versions, and gets the responses in those versions.
func TestReviewsInRemovedVersions(t *testing.T) {
	e := apiservertest.New(t)
	admin := []string{"Authorization", "Bearer " + apiservertest.AdminToken, "Content-Type", "application/json"}
	for _, c := range []struct{ path, body, has string }{
		{"authorization.k8s.io/v1beta1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, `"allowed":true`},
		{"authorization.k8s.io/v1beta1/subjectaccessreviews", `{"spec":{"user":"bob","group":["system:masters"],"resourceAttributes":{"verb":"get"}}}`, `"allowed":true`},
		{"authentication.k8s.io/v1beta1/tokenreviews", `{"spec":{"token":"` + apiservertest.AliceToken + `"}}`, `"username":"alice"`},
		{"authentication.k8s.io/v1beta1/selfsubjectreviews", `{}`, `"username":"admin"`},
	} {
		resp, body := do(t, e, "POST", "/apis/"+c.path, c.body, admin...)
		var kind metav1.TypeMeta
		if err := json.Unmarshal([]byte(body), &kind); err != nil {
			t.Fatal(err)
		}
		version, _ := path.Split(c.path)
		if resp.StatusCode != 201 || kind.APIVersion+"/" != version || !strings.Contains(body, c.has) {
			t.Errorf("%s: got %s %s", c.path, resp.Status, body)
		}
	}
}
