package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
)

// dial opens a connection to the server and sends nothing.
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

// TestHalfHeader sends an incomplete header: the server closes the connection after a time limit.
func TestHalfHeader(t *testing.T) {
	t.Parallel()
	e := apiservertest.New(t)
	conn := dial(t, e)
	if _, err := io.WriteString(conn, "GET /api HTTP/1.1\r\nHost: h\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	began := time.Now()
	if response, err := io.ReadAll(conn); err != nil || len(response) > 0 && !strings.Contains(string(response), "408") {
		t.Errorf("got %q and %v", response, err)
	}
	t.Logf("half a header is given up after %v", time.Since(began))
}

// TestHalfBody sends an incomplete body: the request ends at its deadline, with a response.
func TestHalfBody(t *testing.T) {
	t.Parallel()
	e := apiservertest.New(t)
	conn := dial(t, e)
	fmt.Fprintf(conn, "POST /api/v1/namespaces/default/configmaps?timeout=1s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"metadata\":", apiservertest.AdminToken)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body) // only the received part matters
	if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), `"reason":"Timeout"`) {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestIdleConnections opens many idle connections, measures the memory of each with its client, and checks that other
// clients are still served.
func TestIdleConnections(t *testing.T) {
	oneAtATime(t)
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

// filled creates ConfigMaps that exceed the socket buffers.
func filled(t *testing.T, e *apiservertest.Env) {
	t.Helper()
	for i := range 24 {
		m := configMap(fmt.Sprint("big", i))
		m.Data = map[string]string{"k": strings.Repeat("x", 1_000_000)}
		if _, err := e.Client("test").Create(testContext(t), client.Target{Resource: client.ConfigMaps, Namespace: "default"}, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadResponses does not read its responses: the server closes each connection some time after the deadline of the
// request or watch.
func TestUnreadResponses(t *testing.T) {
	for verb, query := range map[string]string{"list": "?timeout=10s", "watch": "?watch=1&timeoutSeconds=10"} {
		t.Run(verb, func(t *testing.T) {
			clk, metrics := testclock.NewFakeClock(time.Now()), prometheus.NewRegistry()
			e := apiservertest.New(t, func(c *apiserver.Config) { c.Clock, c.Metrics = clk, metrics })
			filled(t, e)
			conn := dial(t, e)
			fmt.Fprintf(conn, "GET /api/v1/configmaps%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", query, apiservertest.AdminToken)
			if _, err := conn.Read(make([]byte, 1)); err != nil { // the response has begun
				t.Fatal(err)
			}
			clk.Step(9 * time.Second)
			if n := running(t, metrics, verb); n != 1 {
				t.Fatalf("%d requests are being answered", n)
			}
			deadline := time.Now().Add(time.Minute)
			for running(t, metrics, verb) > 0 {
				if time.Now().After(deadline) {
					t.Fatal("the server did not close the connection")
				}
				clk.Step(time.Second)
				runtime.Gosched()
			}
		})
	}
}

// running returns the number of requests of a verb in flight.
func running(t *testing.T, metrics *prometheus.Registry, verb string) int {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "minikctl_apiserver_requests_running" && m.GetLabel()[0].GetValue() == verb {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	return 0
}
