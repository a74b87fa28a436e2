package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestUnauthenticatedConnectionIsClosed makes two requests over HTTP/2: only an authenticated client keeps its connection.
func TestUnauthenticatedConnectionIsClosed(t *testing.T) {
	e := apiservertest.New(t)
	for name, c := range map[string]struct {
		token  string
		path   string
		code   int
		reused bool
	}{
		"known":         {apiservertest.AliceToken, "/version", http.StatusOK, true},
		"anonymous":     {"", "/version", http.StatusOK, false},
		"unknown token": {"nonsense", "/version", http.StatusUnauthorized, false},
	} {
		t.Run(name, func(t *testing.T) {
			hc, err := rest.HTTPClientFor(e.Config(c.token))
			if err != nil {
				t.Fatal(err)
			}
			defer hc.CloseIdleConnections()
			var got httptrace.GotConnInfo
			for range 2 {
				ctx := httptrace.WithClientTrace(testContext(t), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { got = info }})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := hc.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != c.code || resp.ProtoMajor != 2 {
					t.Fatalf("got %s over %s", resp.Status, resp.Proto)
				}
			}
			if got.Reused != c.reused {
				t.Errorf("the second request reuses the connection: %v", got.Reused)
			}
		})
	}
}
