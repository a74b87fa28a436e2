package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// The files of the front proxy. Its authority is another one than the cluster's: who has a certificate of the cluster is
// somebody, and who has one of the front proxy may say who somebody else is.
const (
	frontCAFile = "front-proxy-ca.pem"
	frontFile   = "front-proxy-client.pem"
)

// FrontProxyClient is the name in the certificate by which an extension server knows the API server, and the API server a
// proxy in front of it.
const FrontProxyClient = "front-proxy-client"

// FrontProxyCA returns the front proxy's authority as PEM, and makes it when nobody has asked before.
func (p *PKI) FrontProxyCA() ([]byte, error) {
	ca, err := p.frontCA()
	if err != nil {
		return nil, err
	}
	return ca.certPEM(), nil
}

// FrontProxyPool returns a pool with the front proxy's authority alone.
func (p *PKI) FrontProxyPool() (*x509.CertPool, error) {
	ca, err := p.frontCA()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool, nil
}

// FrontProxy returns the certificate that the API server shows to extension servers. It is kept in the folder and
// replaced when it comes near its end.
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

// frontCA returns the front proxy's authority. Like the cluster's it is never replaced when it can't be read.
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

// accepted are the authorities whose names are told to clients that may show a certificate. That of the front proxy is
// among them once it is there.
func (p *PKI) accepted() *x509.CertPool {
	pool := p.Pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.front != nil {
		pool.AddCert(p.front.cert)
	}
	return pool
}

// loadFrontCA reads the front proxy's authority when an earlier start has made it.
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
