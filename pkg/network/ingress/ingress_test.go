package ingress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

const (
	httpPort  = 2080
	httpsPort = 2443
)

// fixture is the ingress beside an API server, without controllers: the test makes the EndpointSlices.
type fixture struct {
	*testing.T
	client.Client
	hosts addr.Range
}

func newFixture(t *testing.T) *fixture {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address only")
	}
	owner := t.TempDir()
	r, err := addr.Claim(addr.Dir(), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := addr.Release(addr.Dir(), owner); err != nil {
			t.Error(err)
		}
	})
	env := apiservertest.New(t, func(c *apiserver.Config) { c.ServiceAddresses, c.IngressClass = r.Services(), true })
	f := &fixture{t, env.Client("ingress-test"), r}
	ctx, cancel := context.WithCancel(t.Context())
	caches := client.NewCaches(f.Client, clock.Real())
	i := New(Config{
		Client: f.Client, Caches: caches, Clock: clock.Real(), Class: networking.IngressController, At: f.at(),
		HTTP: httpPort, HTTPS: httpsPort,
	})
	ended := make(chan error, 2)
	for _, run := range []func(context.Context) error{caches.Run, i.Run} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	return f
}

func (f *fixture) at() netip.Addr { return f.hosts.Own(80) }

// backend serves on one of the daemon's own addresses, port 8080.
func (f *fixture) backend(n uint8, h http.HandlerFunc) {
	f.Helper()
	l, err := net.Listen("tcp4", netip.AddrPortFrom(f.hosts.Own(n), 8080).String())
	if err != nil {
		f.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	f.Cleanup(s.Close)
}

// create creates an object, and ends the test if the API server refuses it.
func (f *fixture) create(t client.Target, obj apiruntime.Object) apiruntime.Object {
	f.Helper()
	t.Namespace = "default"
	got, err := f.Create(f.Context(), t, obj, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// service makes a Service whose endpoints are port 8080 of own addresses.
func (f *fixture) service(name string, own ...uint8) {
	f.Helper()
	f.create(client.Target{Resource: client.Services}, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	protocol, port := corev1.ProtocolTCP, int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port, Protocol: &protocol}},
	}
	for _, n := range own {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{f.hosts.Own(n).String()}})
	}
	f.create(client.Target{Resource: client.EndpointSlices}, s)
}

func (f *fixture) ingress(name string, rules ...networkingv1.IngressRule) *networkingv1.Ingress {
	f.Helper()
	in := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{Rules: rules}}
	return f.create(client.Target{Resource: ingressResource}, in).(*networkingv1.Ingress)
}

// do sends a request to the ingress for a host, and returns the response and its body.
func (f *fixture) do(method, host, path, body string) (*http.Response, string, error) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, fmt.Sprintf("http://%s:%d%s", f.at(), httpPort, path), strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Host = host
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

// until repeats a request until its response has a code.
func (f *fixture) until(host, path string, code int) string {
	f.Helper()
	var body string
	f.wait(fmt.Sprintf("%d of %s%s", code, host, path), func() bool {
		resp, got, err := f.do("GET", host, path, "")
		body = got
		return err == nil && resp.StatusCode == code
	})
	return body
}

func (f *fixture) wait(what string, check func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("no sign of %s", what)
		}
	}
}

func (f *fixture) refuses() bool {
	_, _, err := f.do("GET", "a.test", "/", "")
	return errors.Is(err, syscall.ECONNREFUSED)
}

func (f *fixture) addresses(name string) []networkingv1.IngressLoadBalancerIngress {
	f.Helper()
	obj, err := f.Get(f.Context(), client.Target{Resource: ingressResource, Namespace: "default", Name: name}, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return obj.(*networkingv1.Ingress).Status.LoadBalancer.Ingress
}

// TestListensWhileItHasIngresses checks the class, the status, and that the ports are open only while they are used.
func TestListensWhileItHasIngresses(t *testing.T) {
	f := newFixture(t)
	if !f.refuses() {
		t.Error("it listens without an Ingress")
	}
	in := f.ingress("one", ruleOf("a.test", "/", "web"))
	if got := *in.Spec.IngressClassName; got != "minikctl" {
		t.Errorf("default class: got %q", got)
	}
	f.wait("the address", func() bool { return len(f.addresses("one")) == 1 })
	if got := f.addresses("one")[0].IP; got != f.at().String() {
		t.Errorf("address: got %s, want %s", got, f.at())
	}
	f.until("b.test", "/", http.StatusNotFound)
	f.until("a.test", "/", http.StatusServiceUnavailable)

	f.create(client.Target{Resource: classResource}, &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/other"}})
	f.wait("the change of the class", func() bool {
		target := client.Target{Resource: ingressResource, Namespace: "default", Name: "one"}
		obj, err := f.Get(f.Context(), target, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		in := obj.DeepCopyObject().(*networkingv1.Ingress)
		in.Spec.IngressClassName = new("other")
		_, err = f.Update(f.Context(), target, in, metav1.UpdateOptions{})
		return err == nil // else the status was written meanwhile
	})
	f.wait("closed ports", f.refuses)
	f.wait("a status without the address", func() bool { return len(f.addresses("one")) == 0 })
}

// TestBalance checks that requests go to all endpoints, with the headers of a proxy.
func TestBalance(t *testing.T) {
	f := newFixture(t)
	for n := range uint8(3) {
		f.backend(10+n, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, n, r.Host, r.URL, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Host"], r.Header["X-Forwarded-Proto"], r.Header["X-Real-Ip"])
		})
	}
	f.service("web", 10, 11, 12)
	f.ingress("one", ruleOf("a.test", "/x", "web"))
	f.until("a.test", "/x", http.StatusOK)
	count := map[string]int{}
	for range 30 {
		_, body, err := f.do("GET", "a.test", "/x/y?q=%2F", "")
		if err != nil {
			t.Fatal(err)
		}
		count[body]++
	}
	for n := range 3 {
		want := fmt.Sprintf("%d a.test /x/y?q=%%2F [127.0.0.1] [a.test] [http] [127.0.0.1]\n", n)
		if count[want] != 10 {
			t.Errorf("%q: got %d of 30 requests: %v", want, count[want], count)
		}
	}
}

// TestUnreachableEndpoints checks that a request whose endpoint refuses the connection reaches another one, with its body.
func TestUnreachableEndpoints(t *testing.T) {
	f := newFixture(t)
	f.backend(10, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	f.service("half", 10, 11)
	f.service("none", 12, 13)
	f.service("empty")
	f.ingress("one", ruleOf("a.test", "/half", "half", "/none", "none", "/empty", "empty"))
	f.until("a.test", "/half", http.StatusOK)
	for range 4 {
		resp, body, err := f.do("POST", "a.test", "/half", "the body")
		if err != nil || resp.StatusCode != http.StatusOK || body != "the body" {
			t.Fatalf("got %v, %q, %v", resp, body, err)
		}
	}
	if body := f.until("a.test", "/none", http.StatusBadGateway); body != "Bad Gateway\n" {
		t.Errorf("without a reachable endpoint: got %q", body)
	}
	f.until("a.test", "/empty", http.StatusServiceUnavailable)
}

// TestUpgrade checks that a connection that changes its protocol, as WebSockets do, passes both ways.
func TestUpgrade(t *testing.T) {
	f := newFixture(t)
	f.backend(10, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			return
		}
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, buf)
	})
	f.service("web", 10)
	f.ingress("one", ruleOf("", "/", "web"))
	f.until("a.test", "/", http.StatusOK)
	conn, err := net.Dial("tcp4", netip.AddrPortFrom(f.at(), httpPort).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	buf := bufio.NewReader(conn)
	resp, err := http.ReadResponse(buf, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", resp, err)
	}
	defer resp.Body.Close()
	for _, line := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(conn, line)
		if got, err := buf.ReadString('\n'); got != line {
			t.Fatalf("got %q, %v, want %q", got, err, line)
		}
	}
}

// TestTLS checks that the certificate is that of the Secret for the host.
func TestTLS(t *testing.T) {
	f := newFixture(t)
	f.backend(10, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["X-Forwarded-Proto"]) })
	f.service("web", 10)
	cert, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f.create(client.Target{Resource: client.Secrets}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cert"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		}})
	in := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{ruleOf("ingress.local", "/", "web"), ruleOf("gone.test", "/", "web")},
		TLS:   []networkingv1.IngressTLS{{Hosts: []string{"ingress.local"}, SecretName: "cert"}, {Hosts: []string{"gone.test"}, SecretName: "gone"}},
	}}
	f.create(client.Target{Resource: ingressResource}, in)
	f.until("ingress.local", "/", http.StatusOK)

	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	at := fmt.Sprintf("%s:%d", f.at(), httpsPort)
	c := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", at)
		},
	}}
	t.Cleanup(c.CloseIdleConnections)
	resp, err := c.Get("https://ingress.local/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "[https]" || resp.ProtoMajor != 2 {
		t.Errorf("got %q by %s", body, resp.Proto)
	}
	for _, host := range []string{"gone.test", "other.test"} { // without a Secret
		conn, err := tls.Dial("tcp4", at, &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().PeerCertificates[0]; got.Equal(leaf) || got.Subject.CommonName != "minikctl ingress" {
			t.Errorf("%s: got the certificate of %v", host, got.Subject)
		}
		conn.Close()
	}
}
