package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// extension is an extension API server that accepts requests of the front proxy only.
type extension struct {
	group, version, name string // the name of its Service, in the namespace default
	resources            []metav1.APIResource
	serve                http.HandlerFunc // handles paths below its version
	old                  bool             // has neither aggregated discovery nor OpenAPI v3
	invalidDocuments     bool             // its discovery and OpenAPI documents are invalid

	e       *apiservertest.Env
	cs      *kubernetes.Clientset
	cert    tls.Certificate
	front   *x509.CertPool
	names   []string
	address string

	mu     sync.Mutex
	server *httptest.Server
	last   *http.Request // the last one for a resource
}

// start starts the extension server at an address in the range of pods.
func (x *extension) start(t *testing.T, e *apiservertest.Env) {
	t.Helper()
	x.e, x.cs, x.cert = e, clientset(t, e.AdminConfig), certificateFor(t, x.name+".default.svc")
	x.readAuthorities(t)
	x.address = "127.77.0.1:0"
	x.up(t)
	t.Cleanup(x.down)
}

// readAuthorities reads the trusted authorities from the ConfigMap extension-apiserver-authentication.
func (x *extension) readAuthorities(t *testing.T) {
	cm, err := x.cs.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.front = x509.NewCertPool()
	if !x.front.AppendCertsFromPEM([]byte(cm.Data["requestheader-client-ca-file"])) || !x509.NewCertPool().AppendCertsFromPEM([]byte(cm.Data["client-ca-file"])) {
		t.Fatalf("no authorities in %v", cm.Data)
	}
	if err := json.Unmarshal([]byte(cm.Data["requestheader-allowed-names"]), &x.names); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	} {
		if cm.Data[key] != want {
			t.Errorf("%s: got %q, want %q", key, cm.Data[key], want)
		}
	}
}

func (x *extension) up(t *testing.T) {
	l, err := net.Listen("tcp", x.address)
	if err != nil {
		t.Skipf("no address for a pod: %v", err)
	}
	x.address = l.Addr().String()
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(x.ServeHTTP)}}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{x.cert}, ClientAuth: tls.RequestClientCert}
	srv.StartTLS()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.server = srv
}

func (x *extension) down() {
	x.mu.Lock()
	srv := x.server
	x.server = nil
	x.mu.Unlock()
	if srv != nil {
		srv.CloseClientConnections()
		srv.Close()
	}
}

// ServeHTTP handles requests of the front proxy.
func (x *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !x.authenticatesFrontProxy(r) {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	at := "/apis/" + x.group + "/" + x.version
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: x.group + "/" + x.version, APIResources: x.resources}
	switch path := r.URL.Path; {
	case x.invalidDocuments && path == "/apis":
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_, _ = io.WriteString(w, `{"items":[{"metadata":7`)
	case x.invalidDocuments && strings.HasPrefix(path, "/openapi"):
		reply(w, "application/json", []string{"nothing"})
	case path == at:
		reply(w, "application/json", list)
	case path == "/apis" && !x.old && strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList"):
		x.discover(w, r)
	case path == "/openapi/v3" && !x.old:
		reply(w, "application/json", map[string]any{"paths": map[string]any{at[1:]: map[string]string{"serverRelativeURL": "/openapi/v3" + at + "?hash=7"}}})
	case path == "/openapi/v3"+at && !x.old:
		reply(w, "application/json", map[string]any{"openapi": "3.0.0", "info": map[string]string{"title": "of the extension"}, "paths": map[string]any{}})
	case path == "/openapi/v2":
		reply(w, "application/json", x.swagger(at))
	case strings.HasPrefix(path, at+"/") && x.serve != nil:
		x.mu.Lock()
		x.last = r.Clone(r.Context())
		x.mu.Unlock()
		x.serve(w, r)
	default:
		http.NotFound(w, r)
	}
}

// received returns the last request for a resource.
func (x *extension) received() *http.Request {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

func (x *extension) authenticatesFrontProxy(r *http.Request) bool {
	if len(r.TLS.PeerCertificates) == 0 || r.Header.Get("X-Remote-User") == "" {
		return false
	}
	leaf := r.TLS.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: x.front, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil && slices.Contains(x.names, leaf.Subject.CommonName)
}

func (x *extension) discover(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("If-None-Match") == `"1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	v := apidiscovery.APIVersionDiscovery{Version: x.version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, res := range x.resources {
		v.Resources = append(v.Resources, apidiscovery.APIResourceDiscovery{
			Resource: res.Name, SingularResource: res.SingularName, Scope: apidiscovery.ScopeNamespace, Verbs: res.Verbs, ShortNames: res.ShortNames,
			ResponseKind: &metav1.GroupVersionKind{Kind: res.Kind},
		})
	}
	w.Header().Set("ETag", `"1"`)
	reply(w, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{{ObjectMeta: metav1.ObjectMeta{Name: x.group}, Versions: []apidiscovery.APIVersionDiscovery{v}}},
	})
}

func (x *extension) swagger(at string) any {
	responses := map[string]any{"200": map[string]any{"description": "OK", "schema": map[string]string{"$ref": "#/definitions/org.example.Thing"}}}
	return map[string]any{
		"swagger": "2.0", "info": map[string]string{"title": "e", "version": "1"},
		"paths": map[string]any{
			at + "/things": map[string]any{"get": map[string]any{"responses": responses}},
			"/version/":    map[string]any{"get": map[string]any{"responses": responses}},
		},
		"definitions": map[string]any{"org.example.Thing": map[string]any{"type": "object", "description": "A thing."}},
	}
}

func reply(w http.ResponseWriter, media string, v any) {
	w.Header().Set("Content-Type", media)
	_ = json.NewEncoder(w).Encode(v) // fails only when the client has disconnected
}

// service creates the extension's Service and its endpoint, ready or not.
func (x *extension) service(t *testing.T, ready bool) {
	t.Helper()
	port := corev1.ServicePort{Name: "https", Port: 443}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: x.name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{port}}}
	if _, err := x.cs.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	x.endpoint(t, ready)
}

func (x *extension) endpoint(t *testing.T, ready bool) {
	t.Helper()
	host, text, err := net.SplitHostPort(x.address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text) //nolint:staticcheck // new(int32(n)) uses it
	if err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: x.name, Labels: map[string]string{discoveryv1.LabelServiceName: x.name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(n))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	slices := x.cs.DiscoveryV1().EndpointSlices("default")
	if _, err = slices.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		_, err = slices.Create(t.Context(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// register creates the APIService.
func (x *extension) register(t *testing.T, group, version int32) {
	t.Helper()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.cert.Certificate[0]})
	body, err := json.Marshal(apiregistrationv1.APIService{
		TypeMeta: metav1.TypeMeta{Kind: "APIService", APIVersion: "apiregistration.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: x.version + "." + x.group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: x.group, Version: x.version, GroupPriorityMinimum: group, VersionPriority: version, CABundle: bundle,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: x.name},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if resp, text := do(t, x.e, "POST", registrations, string(body), "Content-Type", "application/json"); resp.StatusCode != http.StatusCreated {
		t.Fatalf("create the APIService: %s", text)
	}
}

const registrations = "/apis/apiregistration.k8s.io/v1/apiservices"

// expect waits until the condition Available has this status and reason.
func (x *extension) expect(t *testing.T, status, reason, message string) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("last seen: %s", last)
		}
	}()
	eventually(t, fmt.Sprintf("the APIService is %s, %s", status, reason), func() bool {
		_, body := do(t, x.e, "GET", registrations+"/"+x.version+"."+x.group, "")
		var s apiregistrationv1.APIService
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		last = body
		for _, c := range s.Status.Conditions {
			last = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
			if string(c.Status) == status && c.Reason == reason && strings.Contains(c.Message, message) && !c.LastTransitionTime.IsZero() {
				return true
			}
		}
		return false
	})
}

// upgrade switches the connection to another protocol.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	line, _ := bufio.NewReader(rw).ReadString('\n')
	_, _ = io.WriteString(conn, strings.ToUpper(line))
}
