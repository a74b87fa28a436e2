package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	corev1 "k8s.io/api/core/v1"
)

func TestHTTP(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			_, _ = w.Write([]byte("fine"))
		case "/here":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	for path, want := range map[string]struct {
		result Result
		text   string
	}{
		"/ok":   {Success, "fine"},
		"/here": {Success, "fine"},
		"/loop": {Failure, "stopped after 10 redirects"},
		"/away": {Warning, "Probe terminated redirects, Response body: "},
		"/no":   {Failure, "HTTP probe failed with statuscode: 404"},
	} {
		u, err := url.Parse(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		req, err := NewRequest(t.Context(), u, nil, "test")
		if err != nil {
			t.Fatal(err)
		}
		if result, text := HTTP(req); result != want.result || !strings.Contains(text, want.text) {
			t.Errorf("%s: got %v %q, want %v %q", path, result, text, want.result, want.text)
		}
	}
}

func TestHeaders(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/"}
	req, err := NewRequest(t.Context(), u, []corev1.HTTPHeader{
		{Name: "host", Value: "shop"}, {Name: "accept", Value: ""}, {Name: "user-agent", Value: "mine"}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"},
	}, "ours")
	if err != nil {
		t.Fatal(err)
	}
	if req.Host != "shop" || req.UserAgent() != "mine" || len(req.Header["X-A"]) != 2 || req.Header.Get("Accept") != "" {
		t.Errorf("got host %q and %v", req.Host, req.Header)
	}
	if req, err = NewRequest(t.Context(), u, nil, "ours"); err != nil || req.UserAgent() != "ours" || req.Header.Get("Accept") != "*/*" {
		t.Errorf("got %v and %v", req.Header, err)
	}
}

// serve runs a gRPC server until the test ends and returns its address.
func serve(t *testing.T, srv *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestGRPC(t *testing.T) {
	healthy := health.NewServer()
	healthy.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
	healthy.SetServingStatus("broken", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, healthy)
	address, other := serve(t, srv), serve(t, grpc.NewServer())
	for _, test := range []struct {
		address, service string
		result           Result
		text             string
	}{
		{address, "", Success, "service healthy"},
		{address, "shop", Success, "service healthy"},
		{address, "broken", Failure, `service unhealthy (responded with "NOT_SERVING")`},
		{address, "none", Failure, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"},
		{other, "", Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health"},
	} {
		if result, text := GRPC(t.Context(), test.address, test.service, "test", time.Second); result != test.result || text != test.text {
			t.Errorf("service %q: got %v %q, want %v %q", test.service, result, text, test.result, test.text)
		}
	}
}

func TestGRPCTimesOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(context.DeadlineExceeded) })
	if result, text := GRPC(ctx, l.Addr().String(), "", "test", time.Second); result != Failure || text != "timeout: health rpc did not complete within 1s" {
		t.Errorf("got %v %q", result, text)
	}
}

func TestNoListener(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	address := srv.Listener.Addr().String()
	srv.Close()
	if result, text := TCP(t.Context(), address); result != Failure || !strings.HasSuffix(text, "connect: connection refused") {
		t.Errorf("TCP: got %v %q", result, text)
	}
	result, text := GRPC(t.Context(), address, "", "test", time.Second)
	if result != Failure || !strings.HasPrefix(text, `error: failed to connect service at "`+address) {
		t.Errorf("gRPC: got %v %q", result, text)
	}
}
