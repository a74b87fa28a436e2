package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	criremote "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/clock"
)

// upper is the kubelet's side of exec: it returns its input in upper case.
type upper struct{}

func (upper) ExecInContainer(_ context.Context, pod, _, container string, cmd []string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan criremote.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(errOut, "%s %s %v", pod, container, cmd)
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = out.Write(bytes.ToUpper(b))
	return err
}

// newKubelet starts a server with a kubelet's paths and client authentication, and creates its Node.
func newKubelet(t *testing.T, e *apiservertest.Env, cs *kubernetes.Clientset) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/default/p/c", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("previous") == "true":
			http.Error(w, `previous terminated container "c" in pod "p" not found`, http.StatusBadRequest)
		case r.URL.Query().Get("follow") == "true":
			fmt.Fprintln(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, "%s as %s\n", r.URL.RawQuery, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	})
	mux.HandleFunc("/exec/default/p/c", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the client's credentials reach the kubelet")
		}
		opts, err := criremote.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		criremote.ServeExec(w, r, upper{}, "p", "", "c", r.URL.Query()["command"], opts, time.Minute, time.Minute, criremote.SupportedStreamingProtocols)
	})
	srv := httptest.NewUnstartedServer(mux)
	conf, err := pki.SelfSignedKubeletTLS("n1", []string{"127.0.0.1"}, e.PKI.Pool(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	srv.TLS = conf
	srv.StartTLS()
	t.Cleanup(srv.Close)

	newNode(t, cs, "n1", srv.Listener.Addr())
}

// newNode creates a Node with the address of its kubelet.
func newNode(t *testing.T, cs *kubernetes.Clientset, name string, at net.Addr) {
	t.Helper()
	ctx := testContext(t)
	node, err := cs.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1.invalid"}, {Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(n)
	if _, err := cs.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// newPod creates a pod with these containers, on node unless that is "".
func newPod(t *testing.T, cs *kubernetes.Clientset, name, node string, containers ...string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "i"})
	}
	if _, err := cs.CoreV1().Pods("default").Create(testContext(t), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func newPods(t *testing.T) (*apiservertest.Env, *kubernetes.Clientset) {
	t.Helper()
	e := apiservertest.New(t)
	cs := clientset(t, e.AdminConfig)
	if _, err := cs.CoreV1().ServiceAccounts("default").Create(testContext(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	newKubelet(t, e, cs)
	newPod(t, cs, "p", "n1", "c")
	newPod(t, cs, "two", "n1", "a", "b")
	newPod(t, cs, "waiting", "", "c")
	newPod(t, cs, "lost", "nowhere", "c")
	return e, cs
}

func TestLogs(t *testing.T) {
	e, cs := newPods(t)
	for _, c := range []struct{ path, want string }{
		{"p/log", " as kube-apiserver-kubelet-client\n"},
		{"p/log?tailLines=5&timestamps=true", "tailLines=5&timestamps=true as kube-apiserver-kubelet-client\n"},
		{"waiting/log", ""},
		{"p/log?previous=true", `"message":"previous terminated container \"c\" in pod \"p\" not found\n","reason":"BadRequest","code":400`},
		{"p/log?container=x", `"message":"container x is not valid for pod p","reason":"BadRequest","code":400`},
		{"two/log", `"message":"a container name must be specified for pod two, choose one of: [a b]","reason":"BadRequest","code":400`},
		{"p/log?tailLines=-1", `"reason":"Invalid","details":{"name":"p","kind":"PodLogOptions","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -1: must be greater than or equal to 0","field":"tailLines"}]},"code":422`},
		{"lost/log", `"message":"pods \"nowhere\" not found"`},
		{"none/log", `"message":"pods \"none\" not found"`},
	} {
		_, body := do(t, e, "GET", "/api/v1/namespaces/default/pods/"+c.path, "")
		if strings.HasPrefix(c.want, `"`) && !strings.Contains(body, c.want) || !strings.HasPrefix(c.want, `"`) && body != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.path, body, c.want)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	r, err := cs.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	line := make([]byte, 6)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "first\n" {
		t.Errorf("a followed log does not come as it grows: %q, %v", line, err)
	}
}

// TestLogsOverWebSocket reads a log in each of the protocols of Kubernetes' API server.
func TestLogsOverWebSocket(t *testing.T) {
	e, _ := newPods(t)
	conf, err := rest.TLSConfigFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Replace(e.AdminConfig.Host, "https://", "wss://", 1) + "/api/v1/namespaces/default/pods/p/log"
	const want = " as kube-apiserver-kubelet-client\n"
	for protocol, want := range map[string]string{
		"binary.k8s.io": want, "base64.binary.k8s.io": base64.StdEncoding.EncodeToString([]byte(want)), "": want,
	} {
		d := websocket.Dialer{TLSClientConfig: conf}
		if protocol != "" {
			d.Subprotocols = []string{protocol}
		}
		conn, _, err := d.DialContext(testContext(t), at, http.Header{"Authorization": {"Bearer " + e.AdminConfig.BearerToken}})
		if err != nil {
			t.Fatalf("%q: %v", protocol, err)
		}
		var got strings.Builder
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				break
			}
			got.Write(message)
		}
		conn.Close()
		if got.String() != want {
			t.Errorf("%q: got %q", protocol, got.String())
		}
	}
}

func TestExec(t *testing.T) {
	e, cs := newPods(t)
	req := cs.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("p").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"tr", "a b"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	ex, err := remotecommand.NewSPDYExecutor(e.AdminConfig, http.MethodPost, req.URL())
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	if err := ex.StreamWithContext(testContext(t), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "HELLO" || errOut.String() != "p c [tr a b]" {
		t.Errorf("got %q and %q", out.String(), errOut.String())
	}
	const path = "/api/v1/namespaces/default/pods/"
	for _, c := range []struct{ path, want string }{
		{"waiting/exec?command=x", "pod waiting does not have a host assigned"},
		{"two/exec?command=x", "a container name must be specified for pod two, choose one of: [a b]"},
		{"p/exec?command=x", "Upgrade request required"},
		{"waiting/portforward", "pod waiting does not have a host assigned"},
	} {
		if resp, body := do(t, e, "POST", path+c.path, ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"message":"`+c.want+`"`) {
			t.Errorf("%s: got %s", c.path, body)
		}
	}
	if resp, _ := do(t, e, "POST", path+"p/exec?command=x", "", "Authorization", "Bearer "+apiservertest.AliceToken); resp.StatusCode != http.StatusForbidden {
		t.Errorf("alice may exec: %s", resp.Status)
	}
}

// TestKubeletThatNeverResponds requests a stream from a kubelet that never responds. The server stops waiting when the client
// disconnects.
func TestKubeletThatNeverResponds(t *testing.T) {
	e, cs := newPods(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", silentKubelet(t, e))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	received := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer c.Close()
		if _, err = c.Read(make([]byte, 1)); err == nil {
			close(received)
			_, err = io.Copy(io.Discard, c)
		}
		ended <- err
	}()
	newNode(t, cs, "silent", l.Addr())
	newPod(t, cs, "unheard", "silent", "c")
	requestUpgrade(t, e, "/api/v1/namespaces/default/pods/unheard/exec?command=x", "SPDY/3.1", received)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server still waits for the kubelet")
	}
}

// requestUpgrade requests another protocol, and disconnects once received is closed.
func requestUpgrade(t *testing.T, e *apiservertest.Env, path, protocol string, received <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}, "Authorization": {"Bearer " + apiservertest.AdminToken}}
	conf, err := rest.TLSConfigFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	responded := make(chan struct{})
	go func() {
		defer close(responded)
		if resp, err := (&http.Transport{TLSClientConfig: conf}).RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-received
	cancel()
	<-responded
}

// silentKubelet listens as a kubelet that accepts requests and never responds. It creates the kubelet's Node.
func silentKubelet(t *testing.T, e *apiservertest.Env) *tls.Config {
	t.Helper()
	conf, err := pki.SelfSignedKubeletTLS("silent", []string{"127.0.0.1"}, e.PKI.Pool(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

// TestKubeletCertificate connects to the kubelet of a node with verification: the API server accepts a certificate from
// the cluster's authority and refuses a self-signed one.
func TestKubeletCertificate(t *testing.T) {
	e := apiservertest.New(t, func(c *apiserver.Config) {
		c.VerifiedNode = func(node string) bool { return strings.HasPrefix(node, "verified") }
	})
	cs := clientset(t, e.AdminConfig)
	if _, err := cs.CoreV1().ServiceAccounts("default").Create(testContext(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	issued, err := e.PKI.KubeletTLS("verified", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node string
		conf *tls.Config
		ok   bool
	}{
		{"verified", issued, true},
		{"verified-intruder", silentKubelet(t, e), false},
		{"joined", silentKubelet(t, e), true},
	} {
		reached := false
		host := ""
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached, host = true, r.Host }))
		srv.Listener = tls.NewListener(srv.Listener, c.conf) // StartTLS would add its own certificate
		srv.Start()
		newNode(t, cs, c.node, srv.Listener.Addr())
		newPod(t, cs, "on-"+c.node, c.node, "c")
		for _, path := range []string{
			"/api/v1/namespaces/default/pods/on-" + c.node + "/log", "/api/v1/nodes/" + c.node + "/proxy/pods",
		} {
			reached = false
			resp, body := do(t, e, http.MethodGet, path, "")
			if reached != c.ok || (resp.StatusCode == http.StatusOK) != c.ok || !c.ok && !strings.Contains(body, "x509: certificate signed by unknown authority") {
				t.Errorf("%s: reached %v: %s: %s", path, reached, resp.Status, body)
			}
		}
		if c.ok && host != c.node { // nodes of a process share an address
			t.Errorf("the proxy to %s names the host %q", c.node, host)
		}
		reached = false
		resp, body := do(t, e, http.MethodGet, "/api/v1/namespaces/default/pods/on-"+c.node+"/exec?command=id&stdout=1", "",
			"Connection", "Upgrade", "Upgrade", "websocket")
		if reached != c.ok {
			t.Errorf("exec on %s: reached %v: %s: %s", c.node, reached, resp.Status, body)
		}
		srv.Close()
	}
}
