package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func newClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
}

func open(t testing.TB, dir string, clk *clocktesting.FakeClock) *PKI {
	t.Helper()
	p, err := Open(dir, clk)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOpenReusesFiles(t *testing.T) {
	dir, clk := filepath.Join(t.TempDir(), "pki"), newClock()
	a := open(t, dir, clk)
	admin, err := a.Admin()
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, clk)
	if !bytes.Equal(a.CA(), b.CA()) || !a.TokenKey().Equal(b.TokenKey()) {
		t.Error("the second Open has other keys")
	}
	again, err := b.Admin()
	if err != nil || !bytes.Equal(admin.Cert, again.Cert) || !bytes.Equal(admin.Key, again.Key) {
		t.Errorf("the administrator has another certificate: %v", err)
	}
	check := func(path string, want os.FileMode) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	check(dir, 0o700)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		check(filepath.Join(dir, e.Name()), 0o600)
	}
}

func TestOpenRefusesADamagedAuthority(t *testing.T) {
	for name, damage := range map[string]func(path string, raw []byte) []byte{
		"empty":   func(string, []byte) []byte { return nil },
		"torn":    func(_ string, raw []byte) []byte { return raw[:len(raw)/2] },
		"not PEM": func(string, []byte) []byte { return []byte("hello") },
		"bad DER": func(string, []byte) []byte {
			return []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		},
		"another's key": func(string, []byte) []byte { return otherKey(t) },
		"no authority":  func(string, []byte) []byte { return leafFile(t) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, clk := t.TempDir(), newClock()
			open(t, dir, clk)
			path := filepath.Join(dir, caFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(path, raw), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = Open(dir, clk)
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v, want one that names %s", err, path)
			}
		})
	}
}

func otherKey(t *testing.T) []byte {
	a, err := newCA("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	return append(keyPEM(key), a.certPEM()...)
}

func leafFile(t *testing.T) []byte {
	a, err := newCA("ca", newClock().Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.issue(leaf{name: "x"}, newClock().Now())
	if err != nil {
		t.Fatal(err)
	}
	return l.pem()
}

func TestOpenRefusesAnExpiredAuthority(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	open(t, dir, clk)
	clk.Step(caLife + time.Hour)
	if _, err := Open(dir, clk); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("error is %v", err)
	}
}

func TestOpenRefusesADamagedTokenKey(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	open(t, dir, clk)
	if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, clk); err == nil || !strings.Contains(err.Error(), tokenFile) {
		t.Errorf("error is %v", err)
	}
}

func TestClientCertificates(t *testing.T) {
	p := open(t, t.TempDir(), newClock())
	for _, c := range []struct {
		made   func() (Pair, error)
		name   string
		groups []string
	}{
		{p.Admin, "kubernetes-admin", []string{"system:masters"}},
		{p.KubeletClient, "kube-apiserver-kubelet-client", []string{"system:masters"}},
		{func() (Pair, error) { return p.Node("n1") }, "system:node:n1", []string{"system:nodes"}},
		{func() (Pair, error) { return p.Client("system:kube-scheduler") }, "system:kube-scheduler", nil},
		{func() (Pair, error) { return p.Client("Ünï/../x") }, "Ünï/../x", nil},
		{func() (Pair, error) { return p.Client(strings.Repeat("x", 60)) }, strings.Repeat("x", 60), nil},
	} {
		pair, err := c.made()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.TLS(); err != nil {
			t.Error(err)
		}
		cert, err := parseCert(pair.Cert)
		if err != nil {
			t.Fatal(err)
		}
		if cert.Subject.CommonName != c.name || !slices.Equal(cert.Subject.Organization, c.groups) {
			t.Errorf("subject is %v, want %s %v", cert.Subject, c.name, c.groups)
		}
		_, err = cert.Verify(x509.VerifyOptions{Roots: p.Pool(), CurrentTime: p.clk.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		_, err = cert.Verify(x509.VerifyOptions{Roots: p.Pool(), CurrentTime: p.clk.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err == nil {
			t.Errorf("%s may serve", c.name)
		}
	}
}

func TestRenewal(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	p := open(t, dir, clk)
	first, err := p.Admin()
	if err != nil {
		t.Fatal(err)
	}
	same := func(want bool, why string) {
		t.Helper()
		now, err := p.Admin()
		if err != nil || bytes.Equal(now.Cert, first.Cert) != want {
			t.Errorf("%s: kept %v, %v", why, !want, err)
		}
	}
	clk.Step(leafLife - renewBefore - time.Hour)
	same(true, "before the time")
	clk.Step(2 * time.Hour)
	same(false, "near the end")

	other, err := p.Client("a", "g1")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := p.Client("a", "g2")
	if err != nil || bytes.Equal(other.Cert, changed.Cert) {
		t.Errorf("other groups have the same certificate: %v", err)
	}
}

func TestDamagedCertificateIsReplaced(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	if _, err := open(t, dir, clk).Admin(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, clientFile(Admin))
	if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir, clk).Admin(); err != nil {
		t.Fatal(err)
	}
	if _, err := readPair(path); err != nil {
		t.Error(err)
	}
}

func TestCertificateOfAnotherCAIsReplaced(t *testing.T) {
	a, b, clk := t.TempDir(), t.TempDir(), newClock()
	if _, err := open(t, a, clk).Admin(); err != nil {
		t.Fatal(err)
	}
	p := open(t, b, clk)
	raw, err := os.ReadFile(filepath.Join(a, clientFile(Admin)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b, clientFile(Admin)), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	pair, err := p.Admin()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := parseCert(pair.Cert)
	if err != nil || cert.CheckSignatureFrom(p.ca.cert) != nil {
		t.Errorf("the certificate is not ours: %v", err)
	}
}

// serve starts a server that responds with the client's common name. It returns the address.
func serve(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) > 0 {
				_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
			}
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

func TestServerTLS(t *testing.T) {
	dir, clk := t.TempDir(), newClock()
	p := open(t, dir, clk)
	cfg, err := p.ServerTLS("my.host", "", "0.0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, cfg)
	admin, err := p.Admin()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := admin.TLS()
	if err != nil {
		t.Fatal(err)
	}
	serial := ""
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes", "kubernetes.default.svc.cluster.local", "my.host"} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: p.Pool(), ServerName: name, Time: clk.Now, Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		serial = conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
		_ = conn.Close()
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: p.Pool(), ServerName: "example.com", Time: clk.Now}); err == nil {
		_ = conn.Close()
		t.Error("the certificate is good for example.com")
	}

	clk.Step(leafLife - renewBefore + time.Hour)
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: p.Pool(), ServerName: "localhost", Time: clk.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.ConnectionState().PeerCertificates[0].SerialNumber.String() == serial {
		t.Error("the running server was not given a new certificate")
	}

	before, err := os.ReadFile(filepath.Join(dir, servingFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.ServerTLS("other.host"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, servingFile))
	if err != nil || bytes.Equal(before, after) {
		t.Errorf("other hosts have the same certificate: %v", err)
	}
}

func TestKubeletTLS(t *testing.T) {
	clk := newClock()
	p, stranger := open(t, t.TempDir(), clk), open(t, t.TempDir(), clk)
	cfg, err := SelfSignedKubeletTLS("n1", []string{"127.0.0.1"}, p.Pool(), clk)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, cfg)
	get := func(info *PKI) (string, error) {
		client := &tls.Config{InsecureSkipVerify: true, Time: clk.Now} // like the API server, since kubelets use self-signed certificates
		if info != nil {
			pair, err := info.KubeletClient()
			if err != nil {
				t.Fatal(err)
			}
			c, err := pair.TLS()
			if err != nil {
				t.Fatal(err)
			}
			client.Certificates = []tls.Certificate{c}
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}, Timeout: 10 * time.Second}
		resp, err := c.Get("https://" + address)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if got, err := get(p); err != nil || got != KubeletClient {
		t.Errorf("the API server: %q, %v", got, err)
	}
	if _, err := get(stranger); err == nil {
		t.Error("a client of another authority may call")
	}
	if got, err := get(nil); err != nil || got != "" { // it may have a token
		t.Errorf("a client without a certificate: %q, %v", got, err)
	}
}

func TestServingHosts(t *testing.T) {
	hosts := servingHosts([]string{"localhost", "::", "192.0.2.1"})
	if slices.Contains(hosts, "::") || !slices.Contains(hosts, "192.0.2.1") {
		t.Errorf("hosts are %v", hosts)
	}
	for i := 1; i < len(hosts); i++ {
		if hosts[i-1] >= hosts[i] {
			t.Errorf("%s is before %s", hosts[i-1], hosts[i])
		}
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil && ip.String() != h {
			t.Errorf("%s is not as it will be read back", h)
		}
	}
}

func BenchmarkOpenNew(b *testing.B) {
	clk := newClock()
	for b.Loop() {
		p := open(b, b.TempDir(), clk)
		if _, err := p.ServerTLS(); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Admin(); err != nil {
			b.Fatal(err)
		}
	}
}
