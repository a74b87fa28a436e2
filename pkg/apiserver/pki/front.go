package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// The files of the front proxy. Its authority differs from the cluster's: a certificate of the cluster authenticates its own user,
// whereas one of the front proxy allows to name any user.
const (
	frontCAFile = "front-proxy-ca.pem"
	frontFile   = "front-proxy-client.pem"
)

// FrontProxyClient is the common name in the certificate that the API server shows to extension servers, and that a proxy shows
// to the API server.
const FrontProxyClient = "front-proxy-client"

// FrontProxyCA returns the front proxy's authority as PEM. The first call creates it.
func (p *PKI) FrontProxyCA() ([]byte, error) {
	ca, err := p.frontCA()
	if err != nil {
		return nil, err
	}
	return ca.certPEM(), nil
}

// FrontProxyPool returns a pool of only the front proxy's authority.
func (p *PKI) FrontProxyPool() (*x509.CertPool, error) {
	ca, err := p.frontCA()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool, nil
}

// FrontProxy returns the certificate that the API server shows to extension servers. It is kept in the directory and
// renewed before it expires.
func (p *PKI) FrontProxy() (*tls.Certificate, error) {
	ca, err := p.frontCA()
	if err != nil {
		return nil, err
	}
	c, err := p.issued(ca, frontFile, leaf{name: FrontProxyClient})
	if err != nil {
		return nil, err
	}
	return c.tls(), nil
}

// frontCA returns the front proxy's authority. A file that can't be read is an error and is never replaced.
func (p *PKI) frontCA() (pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.front != nil {
		return *p.front, nil
	}
	path := filepath.Join(p.dir, frontCAFile)
	ca, err := readPair(path)
	switch {
	case err == nil && !ca.cert.IsCA:
		return pair{}, fmt.Errorf("read %s: the certificate is not that of an authority", path)
	case errors.Is(err, fs.ErrNotExist):
		if ca, err = newCA("minikctl-front-proxy-ca", p.clk.Now()); err != nil {
			return pair{}, fmt.Errorf("make the front proxy's authority: %w", err)
		}
		err = writeFile(path, ca.pem())
	}
	if err != nil {
		return pair{}, err
	}
	p.front = &ca
	return ca, nil
}

// accepted returns the authorities that the TLS handshake names to clients: the cluster's and, once it exists, the front
// proxy's.
func (p *PKI) accepted() *x509.CertPool {
	pool := p.Pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.front != nil {
		pool.AddCert(p.front.cert)
	}
	return pool
}

// loadFrontCA loads the front proxy's authority if an earlier start created it.
func (p *PKI) loadFrontCA() error {
	ca, err := readPair(filepath.Join(p.dir, frontCAFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	p.front = &ca
	return nil
}
