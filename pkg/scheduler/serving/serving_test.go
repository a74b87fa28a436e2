package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// shown is a scheduler.
type shown struct {
	ready, unprofiled atomic.Bool
	raw               atomic.Pointer[string]
}

func (s *shown) Ready() bool { return s.ready.Load() }
func (s *shown) Configuration() ([]byte, bool) {
	if raw := s.raw.Load(); raw != nil {
		return []byte(*raw), !s.unprofiled.Load()
	}
	return nil, false
}

func (*shown) Metrics(context.Context) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "scheduler_shown", Help: "Help."})
	g.Set(3)
	return g
}

// start starts a server for the test, and returns its URL and a client that trusts it.
func start(t *testing.T, e *apiservertest.Env, s Scheduler) (url string, c *http.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf, err := pki.SelfSignedTLS("kube-scheduler", []string{"127.0.0.1"}, e.PKI.Pool(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	as := &user.DefaultInfo{Name: user.KubeScheduler, Groups: []string{user.AllAuthenticated}}
	server := &Server{Listener: l, TLS: conf, Client: e.Server.Client(as, "kube-scheduler"), Scheduler: s, Clock: clock.Real()}
	go func() { ended <- server.Run(ctx) }()
	cert, err := x509.ParseCertificate(conf.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String(), &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, url, token string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServer checks what each client may read, and what it reads.
func TestServer(t *testing.T) {
	e := apiservertest.New(t)
	s := &shown{}
	url, c := start(t, e, s)
	admin := e.Client("test")
	group := rbacv1.SchemeGroupVersion
	for resource, obj := range map[string]runtime.Object{
		"clusterroles": &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}},
		"clusterrolebindings": &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}, RoleRef: rbacv1.RoleRef{APIGroup: group.Group, Kind: "ClusterRole", Name: "metrics"},
			Subjects: []rbacv1.Subject{{APIGroup: group.Group, Kind: "User", Name: "alice"}}},
	} {
		if _, err := admin.Create(t.Context(), client.Target{Resource: group.WithResource(resource)}, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for code := 0; code != http.StatusOK; code, _ = get(t, c, url+"/metrics", apiservertest.AliceToken) { // until the right is there
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, path, token string, wantCode int, wantBody string) {
		t.Helper()
		if code, body := get(t, c, url+path, token); code != wantCode || !strings.Contains(body, wantBody) {
			t.Errorf("%s: %d %s, want %d with %s", name, code, body, wantCode, wantBody)
		}
	}
	check("before the start", "/readyz", "", 500, "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n")
	check("before the start", "/livez", "", 200, "ok")
	check("before the start", "/configz", apiservertest.AdminToken, 503, "has not started")
	check("before the start", "/debug/pprof/", apiservertest.AdminToken, 404, "")
	s.ready.Store(true)
	s.raw.Store(new(`{"kind":"KubeSchedulerConfiguration"}`))
	check("health", "/healthz", "", 200, "ok")
	check("readiness", "/readyz?verbose", "", 200, "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n")
	check("one check without a right to it", "/readyz/shutdown", "", 403, `forbidden: User \"system:anonymous\" cannot get path \"/readyz/shutdown\"`)
	check("one check", "/readyz/shutdown", apiservertest.AdminToken, 200, "ok")
	check("metrics without credentials", "/metrics", "", 403, `"message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden"`)
	check("metrics with an unknown token", "/metrics", "nobody", 401, `"message":"Unauthorized","reason":"Unauthorized","code":401`)
	check("metrics without the right", "/metrics", apiservertest.BobToken, 403, `User \"bob\" cannot get path \"/metrics\"`)
	check("metrics", "/metrics", apiservertest.AliceToken, 200, "go_goroutines ")
	check("the scheduler's metrics", "/metrics", apiservertest.AliceToken, 200, "# TYPE scheduler_shown gauge\nscheduler_shown 3\n")
	check("another path", "/configz", apiservertest.AliceToken, 403, `User \"alice\" cannot get path \"/configz\"`)
	check("the configuration", "/configz", apiservertest.AdminToken, 200, `{"componentconfig":{"kind":"KubeSchedulerConfiguration"}}`)
	check("results of checks", "/metrics/slis", apiservertest.AdminToken, 200, `kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1`)
	check("state", "/statusz", apiservertest.AdminToken, 200, "\nPaths: /configz /flagz /healthz /livez /metrics /readyz /statusz\n")
	check("flags", "/flagz", apiservertest.AdminToken, 200, "\nkube-scheduler flagz\n")
	check("state without the right", "/statusz", apiservertest.AliceToken, 403, `User \"alice\" cannot get path \"/statusz\"`)
	check("profiles", "/debug/pprof/", apiservertest.AdminToken, 200, "goroutine")
	check("a profile", "/debug/pprof/goroutine?debug=1", apiservertest.AdminToken, 200, "goroutine profile: total")
	check("a path that does not exist", "/other", apiservertest.AdminToken, 404, "")
	check("flags that can be set", "/debug/flags/", apiservertest.AdminToken, 200, "<tr>v<br>")
	check("a method that does not set the verbosity", "/debug/flags/v", apiservertest.AdminToken, 406, "unsupported http method\n")
	check("a flag without the right", "/debug/flags/v", apiservertest.AliceToken, 403, `User \"alice\" cannot get path \"/debug/flags/v\"`)
	s.unprofiled.Store(true)
	check("a flag where profiling is disabled", "/debug/flags/v", apiservertest.AdminToken, 404, "")
	check("profiles that are disabled", "/debug/pprof/goroutine", apiservertest.AdminToken, 404, "")
}
