package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// dial opens a connection to the server on which nothing has been said.
func dial(t *testing.T, e *apiservertest.Env) *tls.Conn {
	t.Helper()
	conf, err := rest.TLSConfigFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.URL, "https://"), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestHalfHeader begins a request and says no more: the server does not wait for ever.
func TestHalfHeader(t *testing.T) {
	t.Parallel()
	e := apiservertest.New(t)
	conn := dial(t, e)
	if _, err := io.WriteString(conn, "GET /api HTTP/1.1\r\nHost: h\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	began := time.Now()
	if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 && !strings.Contains(string(answer), "408") {
		t.Errorf("got %q and %v", answer, err)
	}
	t.Logf("half a header is given up after %v", time.Since(began))
}

// TestHalfBody sends less of a body than was promised: the request ends with its time, and with an answer.
func TestHalfBody(t *testing.T) {
	t.Parallel()
	e := apiservertest.New(t)
	conn := dial(t, e)
	fmt.Fprintf(conn, "POST /api/v1/namespaces/default/configmaps?timeout=1s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"metadata\":", apiservertest.AdminToken)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body) // what came is enough
	if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), `"reason":"Timeout"`) {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestIdleConnections holds many connections on which nothing is said, looks at what each costs, with its client, and
// whether others are still served.
func TestIdleConnections(t *testing.T) {
	const idle, most = 1000, 96 << 10
	e := apiservertest.New(t)
	dial(t, e)
	before := memoryInUse()
	for range idle {
		dial(t, e)
	}
	if each := (memoryInUse() - before) / idle; each > most {
		t.Errorf("an idle connection costs %d bytes, more than %d", each, most)
	} else {
		t.Logf("an idle connection costs %d bytes, with its client", each)
	}
	if resp, body := do(t, e, http.MethodGet, "/api/v1/namespaces/default", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("got %s %s", resp.Status, body)
	}
}
