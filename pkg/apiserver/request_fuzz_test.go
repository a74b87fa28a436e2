package apiserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// FuzzRequest sends arbitrary requests of an administrator to a server with a custom resource. Nothing panics, and each
// gets a response.
func FuzzRequest(f *testing.F) {
	e := apiservertest.New(f)
	c := customs{f, e}
	c.define("toys", definitionOf("toys", "Toy", "", `{"name":"v1","served":true,"storage":true,"subresources":{"status":{},
		"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},`+typedSchema+`}`))
	c.must("POST", at("v1", "toys", ""), cr("v1", "Toy", "a", `,"spec":{"image":"x"}`))
	c.must("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	for _, s := range [][4]string{
		{"GET", "/api/v1/pods?limit=1&continue=x", "", ""},
		{"GET", "/apis/example.com/v1/toys?fieldSelector=a=b&labelSelector=a+in+(b)", "", ""},
		{"GET", "/api/v1/namespaces/default/configmaps/a?watch=1&resourceVersion=0&timeoutSeconds=1", "", ""},
		{"POST", "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict", `{"metadata":{"generateName":"x-"},"data":{"a":"b"}}`, "application/json"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a?fieldManager=m&force=true", "metadata: {labels: {a: b}}\napiVersion: v1\nkind: ConfigMap", "application/apply-patch+yaml"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a", `[{"op":"add","path":"/data","value":{"a":"b"}},{"op":"copy","from":"/data","path":"/x"}]`, "application/json-patch+json"},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a", `{"data":{"$patch":"replace","a":null},"metadata":{"$setElementOrder/finalizers":["x"]}}`, "application/strategic-merge-patch+json"},
		{"PATCH", "/apis/example.com/v1/namespaces/default/toys/a", `{"spec":{"replicas":2,"args":[1]}}`, "application/merge-patch+json"},
		{"PATCH", "/apis/example.com/v1/namespaces/default/toys/a/scale", `{"spec":{"replicas":2}}`, "application/merge-patch+json"},
		{"PUT", "/apis/example.com/v1/namespaces/default/toys/a/status", `{"apiVersion":"example.com/v1","kind":"Toy","metadata":{"name":"a"},"status":{"x":1}}`, "application/json"},
		{"POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, "application/json"},
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("boats", "Boat", ""), "application/json"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, "application/json"},
		{"POST", "/api/v1/namespaces/default/configmaps", "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\n\x03\n\x01a\x1a\x00\"\x00", "application/vnd.kubernetes.protobuf"},
		{"DELETE", "/api/v1/namespaces/default/configmaps?propagationPolicy=Foreground", `{"gracePeriodSeconds":-1}`, "application/json"},
		{"GET", "/openapi/v3/apis/example.com/v1?hash=x", "", ""},
	} {
		f.Add(s[0], s[1], s[2], s[3], "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	}
	f.Fuzz(func(t *testing.T, method, target, body, contentType, accept string) {
		if strings.Contains(target, "/debug/pprof") { // a profile takes long
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // watches do not end by themselves
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, e.URL+target, strings.NewReader(body))
		if err != nil { // not a request that a client could send
			return
		}
		r.RequestURI = r.URL.RequestURI()
		r.Header.Set("Authorization", "Bearer "+apiservertest.AdminToken)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		e.Server.Handler().ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "caused apiserver to panic") {
			t.Errorf("%s %q %q %q: %d %s", method, target, contentType, body, w.Code, w.Body)
		}
	})
}
