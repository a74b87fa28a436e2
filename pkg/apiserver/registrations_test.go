package apiserver_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

const cronTabs = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"crontabs.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"crontabs","singular":"crontab","kind":"CronTab"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// TestAPIServicesOfServedVersions compares the APIServices with what the server serves, before and after a definition is created.
func TestAPIServicesOfServedVersions(t *testing.T) {
	e := apiservertest.New(t)
	status := func(method, path, body string, headers ...string) int {
		t.Helper()
		resp, _ := do(t, e, method, path, body, headers...)
		return resp.StatusCode
	}
	asJSON := []string{"Content-Type", "application/json"}
	if got := status("GET", registrations+"/v1.apps", ""); got != http.StatusOK {
		t.Errorf("v1.apps: %d", got)
	}
	if got := status("GET", registrations+"/v1.apiregistration.k8s.io", ""); got != http.StatusNotFound {
		t.Errorf("the group of the APIServices has one: %d", got)
	}
	if got := status("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cronTabs, asJSON...); got != http.StatusCreated {
		t.Fatalf("create a definition: %d", got)
	}
	cs := e.Client("test")
	there := func(name string) bool {
		_, err := cs.Get(t.Context(), client.In(apiServices, objects.Key{Name: name}), metav1.GetOptions{})
		return err == nil
	}
	eventually(t, "the custom resource has an APIService", func() bool { return there("v1.example.com") })
	_, body := do(t, e, "GET", registrations+"/v1.example.com", "")
	if !strings.Contains(body, `/automanaged":"true"`) || !strings.Contains(body, `"groupPriorityMinimum":1000,"versionPriority":100`) {
		t.Errorf("of a custom resource: %s", body)
	}
	if got := status("PATCH", registrations+"/v1.example.com", `{"spec":{"versionPriority":7}}`, "Content-Type", "application/merge-patch+json"); got != http.StatusOK {
		t.Errorf("change: %d", got)
	}
	eventually(t, "a changed APIService is restored", func() bool {
		_, body := do(t, e, "GET", registrations+"/v1.example.com", "")
		return strings.Contains(body, `"versionPriority":100`)
	})
	if got := status("DELETE", registrations+"/v1.example.com", ""); got != http.StatusOK {
		t.Errorf("delete: %d", got)
	}
	eventually(t, "a deleted APIService is recreated", func() bool { return there("v1.example.com") })
	if got := status("DELETE", registrations+"/v1.apps", ""); got != http.StatusOK {
		t.Errorf("delete v1.apps: %d", got)
	}
	if got := status("GET", registrations+"/v1.apps", ""); got != http.StatusNotFound {
		t.Errorf("v1.apps, which is made at start only: %d", got)
	}
	if got := status("GET", "/apis/apps/v1/deployments", ""); got != http.StatusOK {
		t.Errorf("what v1.apps is for: %d", got)
	}
	if got := status("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.example.com", ""); got != http.StatusOK {
		t.Errorf("delete the definition: %d", got)
	}
	eventually(t, "its APIService is gone too", func() bool { return !there("v1.example.com") })
}

// TestAPIServicesAreVirtual reads the APIServices over HTTP and in process: both clients get the same, and no read
// writes to the store.
func TestAPIServicesAreVirtual(t *testing.T) {
	e := apiservertest.New(t)
	c := e.Client("test")
	namespaces := func() string {
		list, err := c.List(t.Context(), client.Target{Resource: client.Namespaces}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.ResourceVersion
	}
	eventually(t, "the system objects are stored", func() bool {
		_, body := do(t, e, "GET", "/api/v1/namespaces/default/services/kubernetes", "")
		return !strings.Contains(body, `"resourceVersion":"1"`)
	})
	before := namespaces()
	do(t, e, "GET", "/apis", "")
	list, err := c.List(t.Context(), client.Target{Resource: apiServices}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, body := do(t, e, "GET", registrations, "")
	if count := strings.Count(body, `"groupPriorityMinimum"`); count != len(list.Items) || count == 0 {
		t.Errorf("%d APIServices over HTTP, %d in process", count, len(list.Items))
	}
	if after := namespaces(); after != before {
		t.Errorf("reads have moved the store from %s to %s", before, after)
	}
	for _, file := range []string{"front-proxy-ca.pem", "front-proxy-client.pem"} {
		if matches, _ := filepath.Glob(filepath.Join(e.Dir, "pki", file)); len(matches) > 0 {
			t.Errorf("%s is there without an extension", file)
		}
	}
}

// TestExtensionAfterRestart: a new server proxies at once to an extension that was registered with an earlier server.
func TestExtensionAfterRestart(t *testing.T) {
	state := memory.New()
	var x *extension
	t.Run("before", func(t2 *testing.T) {
		e := apiservertest.New(t2, func(c *apiserver.Config) { c.Store = keptOpen{state} })
		x = newThings(t, e, "example.org")
		x.service(t2, true)
		x.register(t2, 1000, 15)
		x.expect(t2, "True", "Passed", "")
	})
	before := x.e.PKI
	x.e = apiservertest.New(t, func(c *apiserver.Config) { c.Store, c.PKI = state, before })
	x.e.AdminConfig.CAData = before.CA()
	if v := x.seen(t); v.Freshness != apidiscovery.DiscoveryFreshnessCurrent || len(v.Resources) != 1 {
		t.Errorf("served resources: %+v", v)
	}
	if resp, body := do(t, x.e, "GET", thingsPath, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

// TestOldRegistration creates an APIService in the old version that old extension servers use.
func TestOldRegistration(t *testing.T) {
	e := apiservertest.New(t)
	resp, body := do(t, e, "POST", "/apis/apiregistration.k8s.io/v1beta1/apiservices", `{"metadata":{"name":"v1beta1.metrics.k8s.io"},"spec":{
		"group":"metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"name":"m","namespace":"kube-system"}}}`,
		"Content-Type", "application/json")
	if resp.StatusCode != http.StatusCreated || !strings.Contains(body, `"managedFields":[{`) || !strings.Contains(body, `"apiVersion":"apiregistration.k8s.io/v1beta1"`) {
		t.Errorf("%s %s", resp.Status, body)
	}
	const warning = `299 - "apiregistration.k8s.io/v1beta1 APIService is deprecated in v1.19+, unavailable in v1.22+; use apiregistration.k8s.io/v1 APIService"`
	if got := resp.Header.Get("Warning"); got != warning {
		t.Errorf("warning: %s", got)
	}
	if _, body := do(t, e, "GET", registrations+"/v1beta1.metrics.k8s.io", ""); !strings.Contains(body, `"port":443`) || !strings.Contains(body, `"reason":"ServiceNotFound"`) {
		t.Errorf("as v1: %s", body)
	}
}
