package ingress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// keepCertificate is how long a certificate is used before its Secret is read again.
const keepCertificate = 10 * time.Second

// kept is a certificate as it was read.
type kept struct {
	cert *tls.Certificate
	read time.Time
}

// certificate returns the certificate for a connection: that of the Secret for its host, else the ingress' own, which no client trusts.
func (i *Ingress) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	key, ok := i.table.Load().secret(hello.ServerName)
	if !ok {
		return i.fallback()
	}
	i.mu.Lock()
	have, ok := i.certs[key]
	i.mu.Unlock()
	now := i.machine.Now()
	if ok && now.Sub(have.read) < keepCertificate {
		return have.cert, nil
	}
	cert, err := i.read(hello, key)
	if err != nil {
		i.log.WarnContext(hello.Context(), "ingress uses its own certificate", "host", hello.ServerName, "secret", key, "err", err)
		if cert, err = i.fallback(); err != nil {
			return nil, err
		}
	}
	i.mu.Lock()
	i.certs[key] = kept{cert, now}
	i.mu.Unlock()
	return cert, nil
}

func (i *Ingress) read(hello *tls.ClientHelloInfo, key objects.Key) (*tls.Certificate, error) {
	obj, err := i.cfg.Client.Get(hello.Context(), client.In(client.Secrets, key), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("got a %T", obj)
	}
	cert, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	return &cert, err
}

// selfSigned makes a certificate for hosts that no Secret has one for.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	const validity = 365 * 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "minikctl ingress"}, DNSNames: []string{"ingress.local"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
