// Package pki owns the cluster's keys and certificates: its certificate authority, the API server's serving
// certificate, the client certificates of the administrator and of components, the authority and certificate of the
// front proxy, which are created on first use, and the key that signs ServiceAccount tokens. Each is a PEM file in one directory.
// A file holds the private key and its certificate together, so that they always match.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// renewBefore is the remaining validity below which a certificate is renewed.
	renewBefore = 30 * 24 * time.Hour
	// backdate makes certificates valid for clients whose clock is behind.
	backdate = time.Hour
)

// The files of the directory.
const (
	caFile             = "ca.pem"
	servingFile        = "apiserver.pem"
	kubeletServingFile = "kubelet-serving.pem"
	tokenFile          = "service-account.pem"
)

// PKI holds the keys and certificates of one directory. It is safe for concurrent use.
type PKI struct {
	dir string
	clk clock.Clock
	ca  pair
	key *ecdsa.PrivateKey

	mu    sync.Mutex // guards the files and the fields below
	pairs map[string]pair
	front *pair // the front proxy's authority; nil: not created yet
}

// Open loads the keys of dir, or creates them. Only one process may use a directory at a time.
func Open(dir string, clk clock.Clock) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the keys: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect the directory of the keys: %w", err)
	}
	p := &PKI{dir: dir, clk: clock.Machine(clk), pairs: map[string]pair{}}
	if err := p.openCA(); err != nil {
		return nil, err
	}
	if err := p.openTokenKey(); err != nil {
		return nil, err
	}
	if err := p.loadFrontCA(); err != nil {
		return nil, err
	}
	return p, nil
}

// openCA loads or creates the authority. A file that can't be read is an error and is never replaced, since every kubeconfig and
// certificate of the cluster depends on it.
func (p *PKI) openCA() error {
	path := filepath.Join(p.dir, caFile)
	ca, err := readPair(path)
	switch {
	case err == nil && !ca.cert.IsCA:
		return fmt.Errorf("read %s: the certificate is not that of an authority", path)
	case err == nil && p.clk.Now().After(ca.cert.NotAfter):
		return fmt.Errorf("the cluster's authority %s expired on %s", path, ca.cert.NotAfter.Format(time.DateOnly))
	case err == nil:
		p.ca = ca
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if p.ca, err = newCA("minikctl-ca", p.clk.Now()); err != nil {
		return fmt.Errorf("make the cluster's authority: %w", err)
	}
	return writeFile(path, p.ca.pem())
}

func (p *PKI) openTokenKey() error {
	path := filepath.Join(p.dir, tokenFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if p.key, err = newKey(); err != nil {
			return fmt.Errorf("make the key of ServiceAccount tokens: %w", err)
		}
		return writeFile(path, keyPEM(p.key))
	}
	if err != nil {
		return fmt.Errorf("read the key of ServiceAccount tokens: %w", err)
	}
	if p.key, err = parseKey(raw); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// CA returns the authority's certificate as PEM.
func (p *PKI) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: p.ca.cert.Raw})
}

// Authority returns the authority's certificate and its private key.
func (p *PKI) Authority() (*x509.Certificate, crypto.Signer) { return p.ca.cert, p.ca.key }

// Pool returns a pool of only the authority's certificate.
func (p *PKI) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.ca.cert)
	return pool
}

// TokenKey returns the key that signs ServiceAccount tokens.
func (p *PKI) TokenKey() *ecdsa.PrivateKey { return p.key }

// cached calls issued with the cluster's authority.
func (p *PKI) cached(file string, l leaf) (pair, error) { return p.issued(p.ca, file, l) }

// issued returns the pair of a file, from memory or disk, if it still fits l. Otherwise it issues a new one by the authority ca
// and writes the file. A damaged file is replaced, since only the authorities can't be issued again.
func (p *PKI) issued(ca pair, file string, l leaf) (pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clk.Now()
	if c, ok := p.pairs[file]; ok && l.fits(c.cert, now) {
		return c, nil
	}
	path := filepath.Join(p.dir, file)
	c, err := readPair(path)
	if err == nil && l.fits(c.cert, now) && c.cert.CheckSignatureFrom(ca.cert) == nil {
		p.pairs[file] = c
		return c, nil
	}
	if c, err = ca.issue(l, now); err != nil {
		return pair{}, fmt.Errorf("make the certificate of %s: %w", l.name, err)
	}
	if err := writeFile(path, c.pem()); err != nil {
		return pair{}, err
	}
	p.pairs[file] = c
	return c, nil
}

// Pair is a certificate and its private key, as PEM.
type Pair struct {
	Cert, Key []byte
}

// TLS returns the pair as a TLS certificate.
func (c Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(c.Cert, c.Key) }
