package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"

	"github.com/minikctl/minikctl/pkg/clock"
)

// maxKnown bounds the number of cached certificates.
const maxKnown = 1024

// certificates authenticates by TLS client certificate: the common name is the user's name, the organizations are the groups. Unlike
// k8s.io/apiserver's authenticator it verifies the signature of a certificate once, not in each request.
type certificates struct {
	roots *x509.CertPool
	clk   clock.Clock

	mu    sync.Mutex
	known map[[sha256.Size]byte]verified // by the digest of a certificate without intermediates
}

type verified struct {
	response *authenticator.Response // nil: the certificate has no common name
	before   time.Time               // NotBefore and NotAfter
	after    time.Time
}

func newCertificates(roots *x509.CertPool, clk clock.Clock) *certificates {
	return &certificates{roots: roots, clk: clk, known: map[[sha256.Size]byte]verified{}}
}

// AuthenticateRequest implements authenticator.Request.
func (c *certificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	chain := r.TLS.PeerCertificates
	if len(chain) > 1 {
		v, err := c.verify(chain)
		return v.response, v.response != nil, err
	}
	id := sha256.Sum256(chain[0].Raw)
	now := c.clk.Now()
	c.mu.Lock()
	v, ok := c.known[id]
	c.mu.Unlock()
	if ok && !now.Before(v.before) && !now.After(v.after) {
		return v.response, v.response != nil, nil
	}
	v, err := c.verify(chain)
	if err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[id] = v
	return v.response, v.response != nil, nil
}

func (c *certificates) verify(chain []*x509.Certificate) (verified, error) {
	leaf := chain[0]
	opts := verifyOptions(c.roots, c.clk)
	opts.Intermediates = x509.NewCertPool()
	for _, cert := range chain[1:] {
		opts.Intermediates.AddCert(cert)
	}
	chains, err := leaf.Verify(opts)
	if err != nil {
		return verified{}, fmt.Errorf("verifying certificate SN=%d, SKID=%X, AKID=%X failed: %w",
			leaf.SerialNumber, leaf.SubjectKeyId, leaf.AuthorityKeyId, err)
	}
	v := verified{before: leaf.NotBefore, after: leaf.NotAfter}
	for _, cert := range chains[0] {
		if cert.NotBefore.After(v.before) {
			v.before = cert.NotBefore
		}
		if cert.NotAfter.Before(v.after) {
			v.after = cert.NotAfter
		}
	}
	v.response, _, err = x509request.CommonNameUserConversion(chains[0])
	return v, err
}

// verifyOptions returns the options for client certificates that roots have issued.
func verifyOptions(roots *x509.CertPool, clk clock.Clock) x509.VerifyOptions {
	opts := x509request.DefaultVerifyOptions()
	opts.Roots, opts.CurrentTime = roots, clk.Now()
	return opts
}
