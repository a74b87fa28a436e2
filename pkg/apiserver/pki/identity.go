package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The user names of clients of every cluster.
const (
	Admin         = "kubernetes-admin"
	KubeletClient = "kube-apiserver-kubelet-client" // the API server as a client of kubelets
)

// serviceIP is the address of the Service named kubernetes.
const serviceIP = "10.96.0.1"

// Admin returns the administrator's client certificate.
func (p *PKI) Admin() (Pair, error) { return p.Client(Admin, user.SystemPrivilegedGroup) }

// KubeletClient returns the client certificate that the API server shows to kubelets.
func (p *PKI) KubeletClient() (Pair, error) {
	return p.Client(KubeletClient, user.SystemPrivilegedGroup)
}

// Node returns the client certificate of a node's kubelet.
func (p *PKI) Node(name string) (Pair, error) { return p.Client("system:node:"+name, user.NodesGroup) }

// Client returns a client certificate for a user name and its groups. It is kept in the directory and renewed before it
// expires.
func (p *PKI) Client(name string, groups ...string) (Pair, error) {
	c, err := p.cached(clientFile(name), leaf{name: name, groups: groups})
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: c.certPEM(), Key: keyPEM(c.key)}, nil
}

// clientFile returns the file name of a client's certificate. The digest separates names that differ in characters which file
// names can't hold.
func clientFile(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, name)
	if len(safe) > 64 {
		safe = safe[:64]
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("client-%s-%s.pem", safe, hex.EncodeToString(sum[:4]))
}

// ServerTLS returns the API server's TLS configuration: its serving certificate, valid for the names of the Service
// kubernetes, for this machine and for the given hosts, and renewed while the server runs. Client
// certificates are requested; the authenticators verify them.
func (p *PKI) ServerTLS(hosts ...string) (*tls.Config, error) {
	l := leaf{name: "kube-apiserver", hosts: servingHosts(hosts)}
	if _, err := p.cached(servingFile, l); err != nil {
		return nil, err
	}
	conf := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  p.accepted(), // their names are part of the handshake
		NextProtos: []string{"h2", "http/1.1"},
		Time:       p.clk.Now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := p.cached(servingFile, l)
			if err != nil {
				return nil, err
			}
			return c.tls(), nil
		},
	}
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := p.accepted()
		if now.Equal(conf.ClientCAs) {
			return nil, nil
		}
		with := conf.Clone()
		with.ClientCAs = now
		return with, nil
	}
	return conf, nil
}

func servingHosts(extra []string) []string {
	hosts := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", "::1", serviceIP,
	}
	for _, h := range extra {
		if ip := net.ParseIP(h); ip != nil {
			h = ip.String() // in the form that the certificate holds
		}
		if h != "" && h != "0.0.0.0" && h != "::" {
			hosts = append(hosts, h)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// KubeletTLS returns the TLS configuration of a kubelet's server with a certificate of the cluster's authority, which the API
// server verifies. It is kept in the directory and renewed while the server runs.
func (p *PKI) KubeletTLS(node string, hosts ...string) (*tls.Config, error) {
	l := leaf{name: "system:node:" + node, groups: []string{user.NodesGroup}, hosts: append([]string{node}, hosts...)}
	slices.Sort(l.hosts)
	if _, err := p.cached(kubeletServingFile, l); err != nil {
		return nil, err
	}
	conf := kubeletTLS(p.Pool(), p.clk)
	conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := p.cached(kubeletServingFile, l)
		if err != nil {
			return nil, err
		}
		return c.tls(), nil
	}
	return conf, nil
}

// kubeletTLS returns the TLS configuration of a kubelet's server without its certificate. A certificate that a client shows must be of
// an authority in ca.
func kubeletTLS(ca *x509.CertPool, clk clock.Clock) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Time: clk.Now,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca, NextProtos: []string{"http/1.1"},
	}
}

// SelfSignedKubeletTLS returns the TLS configuration of a kubelet's server away from the cluster's keys: a self-signed certificate that is only in memory. A
// certificate that a client shows must be of an authority in ca.
func SelfSignedKubeletTLS(node string, hosts []string, ca *x509.CertPool, clk clock.Clock) (*tls.Config, error) {
	return selfSigned(leaf{name: "system:node:" + node, groups: []string{user.NodesGroup}, hosts: append([]string{node}, hosts...)}, ca, clk)
}

// SelfSignedTLS is SelfSignedKubeletTLS for another component's server on these hosts. The certificate has the component's name.
func SelfSignedTLS(component string, hosts []string, ca *x509.CertPool, clk clock.Clock) (*tls.Config, error) {
	return selfSigned(leaf{name: component, hosts: hosts}, ca, clk)
}

func selfSigned(l leaf, ca *x509.CertPool, clk clock.Clock) (*tls.Config, error) {
	self, err := newCA("minikctl-ca", clk.Now())
	if err != nil {
		return nil, fmt.Errorf("make an authority for the serving certificate: %w", err)
	}
	c, err := self.issue(l, clk.Now())
	if err != nil {
		return nil, fmt.Errorf("make the serving certificate of %s: %w", l.name, err)
	}
	conf := kubeletTLS(ca, clk)
	conf.Certificates = []tls.Certificate{*c.tls()}
	return conf, nil
}
