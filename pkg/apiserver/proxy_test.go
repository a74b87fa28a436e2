package apiserver_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// newBackend starts a server that responds with the request that it got, and creates a pod at its address.
func newBackend(t *testing.T, cs *kubernetes.Clientset, name string) (port int32) {
	t.Helper()
	return newBackendAt(t, cs, name, "127.0.0.1")
}

func newBackendAt(t *testing.T, cs *kubernetes.Clientset, name, address string) (port int32) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skipf("this machine has no address %s: %v", address, err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/upgrade" {
			upgrade(w, r)
			return
		}
		if r.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<a href="/next">next</a>`)
			return
		}
		fmt.Fprintf(w, "%s %s %q auth=%q", r.Method, r.URL.RequestURI(), b, r.Header.Get("Authorization")+r.Header.Get("X-Remote-User")+r.Header.Get("X-Remote-Extra-Scopes"))
	}))
	_ = srv.Listener.Close()
	srv.Listener = listener
	srv.Start()
	t.Cleanup(srv.Close)
	host, text, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	pods := cs.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: int32(n)}}},
	}}}
	if pod, err = pods.Create(testContext(t), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, host, []corev1.PodIP{{IP: host}}
	if _, err := pods.UpdateStatus(testContext(t), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func TestPodProxy(t *testing.T) {
	e, cs := newPods(t)
	port := newBackend(t, cs, "web")
	const pods = "/api/v1/namespaces/default/pods/"
	for _, c := range []struct {
		method, path, body, want string
		code                     int
	}{
		{"GET", "web/proxy/", "", `GET / "" auth=""`, 200},
		{"GET", "web/proxy/a/b/?c=d&e", "", `GET /a/b/?c=d&e "" auth=""`, 200},
		{"POST", fmt.Sprintf("web:%d/proxy/x", port), "body", `POST /x "body" auth=""`, 200},
		{"PUT", fmt.Sprintf("http:web:%d/proxy/x", port), "body", `PUT /x "body" auth=""`, 200},
		{"DELETE", "web/proxy/x", "", `DELETE /x "" auth=""`, 200},
		{"PATCH", "web/proxy/x", "body", `PATCH /x "body" auth=""`, 200},
		{"OPTIONS", "web/proxy/x", "", `OPTIONS /x "" auth=""`, 200},
		{"GET", "web/proxy/page", "", `<a href="` + pods + `web/proxy/next">next</a>`, 200},
		{"GET", "https:web:/proxy/x", "", `"message":"error trying to reach service: tls: first record does not look like a TLS handshake","reason":"ServiceUnavailable","code":503`, 503},
		{"GET", "web:1/proxy/x", "", `"message":"error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused","reason":"ServiceUnavailable","code":503`, 503},
		{"GET", "web:no:port:x/proxy/", "", `"message":"invalid pod request \"web:no:port:x\"","reason":"BadRequest"`, 400},
		{"GET", "none/proxy/", "", `"message":"pods \"none\" not found"`, 404},
		{"GET", "p/proxy/", "", `"message":"address not allowed","reason":"BadRequest"`, 400},
	} {
		if resp, body := do(t, e, c.method, pods+c.path, c.body); resp.StatusCode != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %s:\ngot  %d %s\nwant %d %s", c.method, c.path, resp.StatusCode, body, c.code, c.want)
		}
	}
	if _, body := do(t, e, "GET", pods+"web/proxy/", "", "X-Remote-User", "root", "X-Remote-Extra-Scopes", "all"); body != `GET / "" auth=""` {
		t.Errorf("the headers of a client that is no front proxy are accepted: %s", body)
	}
	if resp, _ := do(t, e, "GET", pods+"web/proxy/", "", "Authorization", "Bearer "+apiservertest.AliceToken); resp.StatusCode != http.StatusForbidden {
		t.Errorf("alice may use pods as a proxy: %s", resp.Status)
	}
}

// TestPodProxyUpgrade switches a connection to a pod to a protocol other than HTTP.
func TestPodProxyUpgrade(t *testing.T) {
	e, cs := newPods(t)
	newBackend(t, cs, "web")
	if got := upgraded(t, e, "GET", "/api/v1/namespaces/default/pods/web/proxy/upgrade", "hello"); got != "HELLO" {
		t.Errorf("got %q", got)
	}
}

// TestPodProxyToPodThatNeverResponds requests another protocol from a pod that never responds. The server stops waiting when the client
// disconnects.
func TestPodProxyToPodThatNeverResponds(t *testing.T) {
	e, cs := newPods(t)
	received, ended := make(chan struct{}), make(chan struct{})
	newBackend(t, cs, "web")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		defer close(ended)
		c, err := silent.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		close(received)
		_, _ = io.Copy(io.Discard, c)
	}()
	_, text, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	requestUpgrade(t, e, "/api/v1/namespaces/default/pods/web:"+text+"/proxy/", "websocket", received)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server still waits for the pod")
	}
}

func TestNodeProxy(t *testing.T) {
	e, _ := newPods(t)
	for _, c := range []struct{ path, want string }{
		{"n1/proxy/containerLogs/default/p/c", " as kube-apiserver-kubelet-client\n"},
		{"none/proxy/", `"message":"nodes \"none\" not found"`},
		{"a:b:c:d/proxy/", `"message":"invalid node request \"a:b:c:d\""`},
	} {
		if _, body := do(t, e, "GET", "/api/v1/nodes/"+c.path, ""); !strings.Contains(body, c.want) {
			t.Errorf("%s: got %s, want %s", c.path, body, c.want)
		}
	}
}

func TestServiceProxy(t *testing.T) {
	const address = "127.199.1.7" // in the range of pod addresses
	e, cs := newPods(t)
	port := newBackendAt(t, cs, "web", address)
	ctx := testContext(t)
	for _, name := range []string{"web", "empty", "liar"} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		if _, err := cs.CoreV1().Services("default").Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ends := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name != "empty" {
			to := corev1.EndpointAddress{IP: address, NodeName: ptr.To("n1")}
			if name == "web" {
				to.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web"}
			} else {
				to.IP = "10.1.2.3"
			}
			ends.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{to}, Ports: []corev1.EndpointPort{{Name: "http", Port: port}}}}
		}
		if _, err := cs.CoreV1().Endpoints("default").Create(ctx, ends, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, want string }{
		{"web:http/proxy/x?y", `GET /x?y "" auth=""`},
		{"web:80/proxy/x", `GET /x "" auth=""`},
		{"http:web:80/proxy/x", `GET /x "" auth=""`},
		{"web/proxy/", `"message":"no endpoints available for service \"web\"","reason":"ServiceUnavailable","code":503`},
		{"web:81/proxy/", `"message":"no service port 81 found for service \"web\"","reason":"ServiceUnavailable","code":503`},
		{"empty:http/proxy/", `"message":"no endpoints available for service \"empty\"","reason":"ServiceUnavailable","code":503`},
		{"liar:http/proxy/", `"message":"no endpoints available for service \"liar:http\"","reason":"ServiceUnavailable","code":503`},
		{"none/proxy/", `"message":"endpoints \"none\" not found"`},
		{"a:b:c:d/proxy/", `"message":"invalid service request \"a:b:c:d\""`},
	} {
		if _, body := do(t, e, "GET", "/api/v1/namespaces/default/services/"+c.path, ""); !strings.Contains(body, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.path, body, c.want)
		}
	}
	if got := upgraded(t, e, "GET", "/api/v1/namespaces/default/services/web:http/proxy/upgrade", "hello"); got != "HELLO" {
		t.Errorf("upgraded to another protocol: got %q", got)
	}
}
