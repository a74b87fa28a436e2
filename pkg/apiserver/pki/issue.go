package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "EC PRIVATE KEY"
)

// pair is a certificate and its private key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// leaf describes a certificate that the authority issues.
type leaf struct {
	name   string   // common name
	groups []string // organizations
	hosts  []string // names and addresses of a server, sorted; empty: a client's certificate
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func newCA(name string, now time.Time) (pair, error) {
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true,
	}
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return sign(t, t, key, key)
}

// issue creates a certificate for l that expires no later than the authority.
func (c pair) issue(l leaf, now time.Time) (pair, error) {
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.name, Organization: l.groups},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(l.hosts) > 0 {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if t.NotAfter.After(c.cert.NotAfter) {
		t.NotAfter = c.cert.NotAfter
	}
	for _, host := range l.hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return sign(t, c.cert, key, c.key)
}

func sign(t, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, parentKey)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, err
	}
	return pair{cert, key}, nil
}

// fits reports whether a certificate matches l and need not be renewed yet.
func (l leaf) fits(c *x509.Certificate, now time.Time) bool {
	if now.Before(c.NotBefore) || now.Add(renewBefore).After(c.NotAfter) {
		return false
	}
	if c.Subject.CommonName != l.name || !sameSet(c.Subject.Organization, l.groups) {
		return false
	}
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return sameSet(hosts, l.hosts)
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// pem returns the key and the certificate in one PEM text.
func (c pair) pem() []byte { return append(keyPEM(c.key), c.certPEM()...) }

func (c pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c.cert.Raw})
}

func (c pair) tls() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key, Leaf: c.cert}
}

// keyPEM cannot fail, since the encoding supports the curve of our keys.
func keyPEM(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
}

func parseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != keyBlock {
			continue
		}
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
		if key.Curve != elliptic.P256() {
			return nil, errors.New("private key: the curve is not P-256")
		}
		return key, nil
	}
	return nil, errors.New("there is no private key in it")
}

func parseCert(raw []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certBlock {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("there is no certificate in it")
}

func readPair(path string) (pair, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return pair{}, fmt.Errorf("read a certificate: %w", err)
	}
	cert, err := parseCert(raw)
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", path, err)
	}
	key, err := parseKey(raw)
	if err != nil {
		return pair{}, fmt.Errorf("read %s: %w", path, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return pair{}, fmt.Errorf("read %s: the key is not the certificate's", path)
	}
	return pair{cert, key}, nil
}
