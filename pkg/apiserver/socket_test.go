package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

func TestSocketAuthenticatesItsOwner(t *testing.T) {
	dir, err := os.MkdirTemp("", "sock") // the path of the test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "d", "api.sock")
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Socket = path })
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory: %v, %v", info.Mode(), err)
	}
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer hc.CloseIdleConnections()
	for token, want := range map[string]int{"": http.StatusOK, apiservertest.AliceToken: http.StatusForbidden} {
		req, err := http.NewRequestWithContext(testContext(t), http.MethodGet, "http://local/api/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("token %q: got %s, want %d", token, resp.Status, want)
		}
	}
	if _, err := apiserver.New(config(e, func(c *apiserver.Config) { c.Socket = path })); err == nil || !strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("a second server on the socket: got %v", err)
	}
}

// TestAllAddresses tests that a server of all addresses is known by one that this machine reaches, and that its certificate has this
// machine's name for others.
func TestAllAddresses(t *testing.T) {
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Listen = "0.0.0.0:0" })
	if !strings.HasPrefix(e.Server.Addr(), "127.0.0.1:") {
		t.Errorf("got the address %s", e.Server.Addr())
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(e.PKI.CA())
	conn, err := tls.Dial("tcp", e.Server.Addr(), &tls.Config{RootCAs: pool, ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func config(e *apiservertest.Env, set func(*apiserver.Config)) apiserver.Config {
	c := apiserver.Config{Store: memory.New(), Resources: builtin.Resources(), Clock: clock.Real(), Source: clock.RandomSource(), PKI: e.PKI}
	set(&c)
	return c
}

func TestStartFailures(t *testing.T) {
	e := apiservertest.New(t)
	for _, c := range []struct {
		name string
		set  func(*apiserver.Config)
		want string
	}{
		{"taken port", func(c *apiserver.Config) { c.Listen = e.Server.Addr() }, "is in use by another program"},
		{"no port", func(c *apiserver.Config) { c.Listen = "localhost" }, `listen address "localhost": address localhost: missing port in address`},
		{"no token file", func(c *apiserver.Config) { c.TokenFile = "/nope" }, "read the token file"},
	} {
		if _, err := apiserver.New(config(e, c.set)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
