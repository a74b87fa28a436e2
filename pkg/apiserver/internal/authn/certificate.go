package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/clock"
)

// maxKnown bounds the number of cached certificates.
const maxKnown = 1024

// certificates authenticates by TLS client certificate: the common name is the user's name, the organizations are the groups.
type certificates struct {
	roots *x509.CertPool
	clk   clock.Clock

	mu    sync.Mutex
	known map[[sha256.Size]byte]verified // by the digest of a certificate without intermediates; saves a signature check per request
}

type verified struct {
	info   user.Info // nil: the certificate has no common name
	before time.Time // start and end of its validity
	after  time.Time
}

func newCertificates(roots *x509.CertPool, clk clock.Clock) *certificates {
	return &certificates{roots: roots, clk: clk, known: map[[sha256.Size]byte]verified{}}
}

func (c *certificates) Authenticate(r *http.Request) (user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	chain := r.TLS.PeerCertificates
	if len(chain) > 1 {
		v, err := c.verify(chain)
		return v.info, v.info != nil, err
	}
	id := sha256.Sum256(chain[0].Raw)
	now := c.clk.Now()
	c.mu.Lock()
	v, ok := c.known[id]
	c.mu.Unlock()
	if ok && !now.Before(v.before) && !now.After(v.after) {
		return v.info, v.info != nil, nil
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
	return v.info, v.info != nil, nil
}

func (c *certificates) verify(chain []*x509.Certificate) (verified, error) {
	leaf := chain[0]
	opts := x509.VerifyOptions{
		Roots: c.roots, Intermediates: x509.NewCertPool(), CurrentTime: c.clk.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
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
	info, err := certificateUser(leaf)
	if err != nil {
		return verified{}, err
	}
	if info != nil {
		v.info = info
	}
	return v, nil
}

// uidAttribute is the attribute of a certificate's subject that holds the user's UID.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

func certificateUser(cert *x509.Certificate) (*user.DefaultInfo, error) {
	if cert.Subject.CommonName == "" {
		return nil, nil
	}
	sum := sha256.Sum256(cert.Raw)
	info := &user.DefaultInfo{
		Name: cert.Subject.CommonName, Groups: cert.Subject.Organization,
		Extra: map[string][]string{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}
	found := 0
	for _, a := range cert.Subject.Names {
		if !a.Type.Equal(uidAttribute) {
			continue
		}
		uid, ok := a.Value.(string)
		if found++; !ok || uid == "" || found > 1 {
			return nil, fmt.Errorf("the certificate of %q has a wrong UID", info.Name)
		}
		info.UID = uid
	}
	return info, nil
}
