package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// TestFrontProxy checks that the front proxy's keys are created on first use, and loaded by a later start.
func TestFrontProxy(t *testing.T) {
	dir, clk := filepath.Join(t.TempDir(), "pki"), newClock()
	p := open(t, dir, clk)
	if _, err := os.Stat(filepath.Join(dir, frontCAFile)); err == nil {
		t.Error("the authority exists before the first use")
	}
	conf, err := p.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := conf.GetConfigForClient(nil); c != nil || err != nil {
		t.Errorf("another configuration without a front proxy: %v", err)
	}
	client, err := p.FrontProxy()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := p.FrontProxyPool()
	if err != nil {
		t.Fatal(err)
	}
	opts := x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: clk.Now()}
	if _, err := client.Leaf.Verify(opts); err != nil || client.Leaf.Subject.CommonName != FrontProxyClient {
		t.Errorf("%s: %v", client.Leaf.Subject, err)
	}
	opts.Roots = p.Pool()
	if _, err := client.Leaf.Verify(opts); err == nil {
		t.Error("the cluster's authority vouches for the front proxy")
	}
	with, err := conf.GetConfigForClient(nil)
	if err != nil || !accepts(with, client) {
		t.Errorf("the handshake does not name the front proxy's authority: %v", err)
	}
	again := open(t, dir, clk)
	if conf, err := again.ServerTLS(); err != nil || !accepts(conf, client) {
		t.Errorf("after a restart the handshake does not name the front proxy's authority: %v", err)
	}
	if second, err := again.FrontProxy(); err != nil || !bytes.Equal(second.Certificate[0], client.Certificate[0]) {
		t.Errorf("another certificate after a restart: %v", err)
	}
}

func accepts(conf *tls.Config, c *tls.Certificate) bool {
	for _, name := range conf.ClientCAs.Subjects() { //nolint:staticcheck // the pool has only certificates
		if bytes.Equal(name, c.Leaf.RawIssuer) {
			return true
		}
	}
	return false
}
