package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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

// health is a server of the health checking protocol that answers with a status, or refuses.
func health(status uint64, refuse string) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		if r.URL.Path != "/grpc.health.v1.Health/Check" || r.ProtoMajor != 2 || refuse != "" {
			w.Header().Set("Grpc-Status", "12")
			w.Header().Set("Grpc-Message", refuse)
			return
		}
		message := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), status)
		_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(message))}, message...))
		w.Header().Set("Grpc-Status", "0")
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	return srv
}

func TestGRPC(t *testing.T) {
	for _, test := range []struct {
		status uint64
		refuse string
		result Result
		text   string
	}{
		{1, "", Success, `service healthy (responded with "SERVING")`},
		{2, "", Failure, `service unhealthy (responded with "NOT_SERVING")`},
		{0, "unimplemented", Failure, "rpc error: code = 12 desc = unimplemented"},
	} {
		srv := health(test.status, test.refuse)
		result, text := GRPC(t.Context(), srv.Listener.Addr().String(), "shop", "test")
		srv.Close()
		if result != test.result || text != test.text {
			t.Errorf("status %d: got %v %q, want %v %q", test.status, result, text, test.result, test.text)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	address := srv.Listener.Addr().String()
	srv.Close()
	if result, text := TCP(t.Context(), address); result != Failure || !strings.HasSuffix(text, "connect: connection refused") {
		t.Errorf("TCP: got %v %q", result, text)
	}
	if result, _ := GRPC(context.Background(), address, "", "test"); result != Failure {
		t.Errorf("gRPC: got %v", result)
	}
}

func FuzzHealthStatus(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		status, err := healthStatus(frame)
		if err != nil && status != 0 {
			t.Errorf("got %d with %v", status, err)
		}
	})
}
