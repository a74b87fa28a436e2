package apiserver_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// certificateFor is a self-signed certificate of a server.
func certificateFor(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// things is the resource that the extension of these tests serves.
var things = []metav1.APIResource{
	{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get", "list", "watch"}, ShortNames: []string{"th"}},
}

// newThings starts an extension that serves things in the version v1 of a group.
func newThings(t *testing.T, e *apiservertest.Env, group string) *extension {
	t.Helper()
	x := &extension{group: group, version: "v1", name: "things", resources: things}
	more := make(chan struct{})
	t.Cleanup(func() { close(more) })
	x.serve = func(w http.ResponseWriter, r *http.Request) {
		thing := `{"apiVersion":"` + group + `/v1","kind":"Thing","metadata":{"name":"a","namespace":"default","uid":"1"}}`
		switch {
		case r.Header.Get("Upgrade") != "":
			upgrade(w, r)
		case r.URL.Query().Get("watch") == "true":
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", thing)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-more:
			}
		case strings.HasSuffix(r.URL.Path, "/things/away"):
			http.Redirect(w, r, "https://example.org/", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/things/a"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, thing)
		case strings.HasSuffix(r.URL.Path, "/things"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"apiVersion":"%s/v1","kind":"ThingList","metadata":{},"items":[%s]}`, group, thing)
		default:
			http.NotFound(w, r)
		}
	}
	x.start(t, e)
	return x
}

const thingsPath = "/apis/example.org/v1/namespaces/default/things"

// TestExtensionConditions: the condition Available has the reason of the next missing step until the extension is
// reachable.
func TestExtensionConditions(t *testing.T) {
	e := apiservertest.New(t)
	x := newThings(t, e, "example.org")
	if resp, _ := do(t, e, "GET", thingsPath, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("before it is registered: %s", resp.Status)
	}
	x.register(t, 1000, 15)
	x.expect(t, "False", "ServiceNotFound", `service/things in "default" is not present`)
	if resp, body := do(t, e, "GET", thingsPath, ""); resp.StatusCode != http.StatusServiceUnavailable || body != "service unavailable\n" {
		t.Errorf("without a Service: %s %s", resp.Status, body)
	}
	x.service(t, false)
	x.expect(t, "False", "MissingEndpoints", `endpointslices for service/things in "default" have no addresses with port name "https"`)
	if err := x.cs.DiscoveryV1().EndpointSlices("default").Delete(t.Context(), "things", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.expect(t, "False", "EndpointsNotFound", `cannot find endpointslices for service/things in "default"`)
	x.endpoint(t, true)
	x.expect(t, "True", "Passed", "all checks passed")

	x.down()
	x.endpoint(t, false)
	x.expect(t, "False", "MissingEndpoints", "")
	x.endpoint(t, true)
	x.expect(t, "False", "FailedDiscoveryCheck", "failing or missing response from https://10.96.")
	if v := x.seen(t); v.Freshness != apidiscovery.DiscoveryFreshnessStale || len(v.Resources) != 1 {
		t.Errorf("discovery of an extension that does not respond: %+v", v)
	}
	x.up(t)
	x.expect(t, "True", "Passed", "all checks passed")
	if v := x.seen(t); v.Freshness != apidiscovery.DiscoveryFreshnessCurrent {
		t.Errorf("discovery of an extension that responds again: %+v", v)
	}
	_, body := do(t, e, "GET", registrations, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(body, `["v1.example.org","default/things","True",`) || !strings.Contains(body, `["v1.apps","Local","True",`) {
		t.Errorf("columns: %s", body)
	}

	if resp, body := do(t, e, "DELETE", registrations+"/v1.example.org", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("delete: %s", body)
	}
	if resp, _ := do(t, e, "GET", thingsPath, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after it is deleted: %s", resp.Status)
	}
	if _, body := do(t, e, "GET", "/apis", ""); strings.Contains(body, "example.org") {
		t.Error("discovery still has it")
	}
}

// seen returns the extension's version in the server's discovery.
func (x *extension) seen(t *testing.T) apidiscovery.APIVersionDiscovery {
	t.Helper()
	_, body := do(t, x.e, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	for _, g := range list.Items {
		if g.Name == x.group {
			return g.Versions[0]
		}
	}
	t.Fatalf("%s is not in the discovery", x.group)
	return apidiscovery.APIVersionDiscovery{}
}

// TestExtensionRequests: proxied requests have the name of their user.
func TestExtensionRequests(t *testing.T) {
	e := apiservertest.New(t)
	x := newThings(t, e, "example.org")
	x.service(t, true)
	x.register(t, 1000, 15)
	x.expect(t, "True", "Passed", "")

	resp, body := do(t, e, "GET", thingsPath+"?limit=5&a=b%20c", "", "X-Remote-User", "eve", "X-Remote-Group", "system:masters", "X-Remote-Extra-Scope", "all", "Audit-Id", "7")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"kind":"ThingList"`) {
		t.Fatalf("%s %s", resp.Status, body)
	}
	h := x.received().Header
	for name, want := range map[string][]string{
		"X-Remote-User": {"admin"}, "X-Remote-Uid": {"admin-uid"}, "X-Remote-Group": {"system:masters", "system:authenticated"},
		"X-Remote-Extra-Scope": nil, "Authorization": nil, "Audit-Id": {"7"},
		"X-Forwarded-Uri": {thingsPath}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"127.0.0.1"},
	} {
		if !slices.Equal(h.Values(name), want) {
			t.Errorf("%s: got %q, want %q", name, h.Values(name), want)
		}
	}
	if q := x.received().URL.Query(); q.Get("limit") != "5" || q.Get("a") != "b c" {
		t.Errorf("query: %s", x.received().URL)
	}
	if _, body := do(t, e, "GET", thingsPath+"/a", "", "Impersonate-User", "bob", "Impersonate-Group", "system:masters", "Impersonate-Extra-Some%2fThing", "x"); !strings.Contains(body, `"kind":"Thing"`) ||
		x.received().Header.Get("X-Remote-User") != "bob" || x.received().Header.Get("X-Remote-Extra-Some%2fthing") != "x" || x.received().Header.Get("Impersonate-User") != "" {
		t.Errorf("as bob: %s %v", body, x.received().Header)
	}
	if resp, body := do(t, e, "GET", thingsPath, "", "Authorization", "Bearer "+apiservertest.AliceToken); resp.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, `things.example.org is forbidden: User \"alice\" cannot list resource \"things\" in API group \"example.org\" in the namespace \"default\"`) {
		t.Errorf("alice: %s %s", resp.Status, body)
	}
	if resp, body := do(t, e, "GET", "/apis/example.org/v1", "", "Authorization", "Bearer "+apiservertest.AliceToken); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"name":"things"`) {
		t.Errorf("discovery as alice: %s %s", resp.Status, body)
	}
	if resp, body := do(t, e, "GET", thingsPath+"/away", ""); resp.StatusCode != http.StatusBadGateway || body != "the backend attempted to redirect this request, which is not permitted" {
		t.Errorf("a redirect: %s %s", resp.Status, body)
	}
	x.watch(t)
	if got := upgraded(t, e, "POST", thingsPath+"/a/exec", "hello"); got != "HELLO" || x.received().Header.Get("X-Remote-User") != "admin" || x.received().Header.Get("Authorization") != "" {
		t.Errorf("got %q from %v", got, x.received().Header)
	}
}

// watch returns the first event while the extension still writes the response.
func (x *extension) watch(t *testing.T) {
	t.Helper()
	hc, err := rest.HTTPClientFor(x.e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.e.URL+thingsPath+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":"ADDED"`) {
		t.Errorf("the first event: %q %v", line, err)
	}
}

// upgraded sends a line in a protocol other than HTTP, and returns the response line.
func upgraded(t *testing.T, e *apiservertest.Env, method, path, line string) string {
	t.Helper()
	conf, err := rest.TLSConfigFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.URL, "https://"), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer %s\r\n\r\n", method, path, apiservertest.AdminToken)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprintln(conn, line)
	back, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(back, "\n")
}

// TestExtensionInDocuments: the discovery and OpenAPI documents include those of an extension.
func TestExtensionInDocuments(t *testing.T) {
	oneAtATime(t)
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old=%v", old), func(t *testing.T) {
			e := apiservertest.New(t)
			x := newThings(t, e, "example.org")
			x.old = old
			x.service(t, true)
			x.register(t, 17850, 15)
			x.expect(t, "True", "Passed", "")
			if v := x.seen(t); v.Freshness != apidiscovery.DiscoveryFreshnessCurrent || len(v.Resources) != 1 || v.Resources[0].Resource != "things" || v.Resources[0].Scope != apidiscovery.ScopeNamespace {
				t.Errorf("discovery: %+v", v)
			}
			title, link := `"title":"of the extension"`, "/openapi/v3/apis/example.org/v1?hash=7"
			if old {
				title, link = `"org.example.Thing"`, "/openapi/v3/apis/example.org/v1?hash="
			}
			for _, c := range []struct{ path, want string }{
				{"/apis", `"groups":[{"name":"apiregistration.k8s.io",`},
				{"/apis", `"preferredVersion":{"groupVersion":"apiregistration.k8s.io/v1","version":"v1"}},` +
					`{"name":"example.org","versions":[{"groupVersion":"example.org/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}},{"name":"apps"`},
				{"/apis/example.org", `"kind":"APIGroup","apiVersion":"v1","name":"example.org"`},
				{"/apis/example.org/v1", `"name":"things"`},
				{"/", `"/apis/example.org/v1"`},
				{"/openapi/v3", `"apis/example.org/v1":{"serverRelativeURL":"` + link},
				{"/openapi/v3", `"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=`},
				{"/openapi/v3/apis/example.org/v1", title},
				{"/openapi/v2", `"org.example.Thing":{`},
				{"/openapi/v2", `"/apis/example.org/v1/things":{`},
				{"/openapi/v2", `"/apis/apps/v1/deployments":{`},
			} {
				if resp, body := do(t, e, "GET", c.path, ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, c.want) {
					t.Errorf("%s: %s, %s is not in\n%.600s", c.path, resp.Status, c.want, body)
				}
			}
			if resp, _ := do(t, e, "GET", "/openapi/v2", "", "Accept", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"); resp.StatusCode != http.StatusOK {
				t.Errorf("OpenAPI v2 as protobuf: %s", resp.Status)
			}
		})
	}
}

// TestExtensionWithInvalidDocuments: an extension with invalid documents does not affect other paths, and its requests are
// proxied.
func TestExtensionWithInvalidDocuments(t *testing.T) {
	e := apiservertest.New(t)
	x := newThings(t, e, "example.org")
	x.invalidDocuments = true
	x.service(t, true)
	x.register(t, 1000, 15)
	x.expect(t, "True", "Passed", "")
	if v := x.seen(t); v.Freshness != apidiscovery.DiscoveryFreshnessStale || v.Version != "v1" || len(v.Resources) > 0 {
		t.Errorf("discovery: %+v", v)
	}
	for path, want := range map[string]string{
		thingsPath: `"kind":"ThingList"`, "/openapi/v3": `"apis/apps/v1":`, "/openapi/v2": `"/apis/apps/v1/deployments":{`, "/apis": `{"name":"example.org"`,
	} {
		if resp, body := do(t, e, "GET", path, ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %s, %s is not in\n%.600s", path, resp.Status, want, body)
		}
	}
}

// TestFrontProxyAuthentication sends requests as a user that the front proxy has authenticated.
func TestFrontProxyAuthentication(t *testing.T) {
	e := apiservertest.New(t)
	identity, err := e.PKI.FrontProxy()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(e.PKI.CA())
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{*identity}}}}
	defer hc.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Remote-User": "carol", "X-Remote-Group": "friends", "X-Remote-Extra-Since": "1999"} {
		req.Header.Set(name, value)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var review authenticationv1.SelfSubjectReview
	if err := json.NewDecoder(resp.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	who := review.Status.UserInfo
	if who.Username != "carol" || !slices.Equal(who.Groups, []string{"friends", "system:authenticated"}) || !slices.Equal(who.Extra["since"], []string{"1999"}) {
		t.Errorf("%s: %+v", resp.Status, who)
	}
}
