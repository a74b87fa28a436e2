package aggregate

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Bounds on connections to extension servers.
const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxIdle          = 25
)

// link is the connection to the extension server of one APIService, with the documents fetched over it.
type link struct {
	x         *Extensions
	service   objects.Key
	port      int32
	clock     clock.Clock
	transport *http.Transport
	broken    error // permanent error of its configuration

	attempted chan struct{} // closed after the first discovery request
	once      sync.Once     // closes attempted

	mu    sync.Mutex
	known known // its discovery document
	fails int   // consecutive failed requests

	describing sync.Mutex // held while its OpenAPI documents are fetched
	openapi    openAPICache
}

var services = schema.GroupResource{Resource: "services"}

// newLink returns a link to the Service of s. It connects on first use.
func (x *Extensions) newLink(s *apiregistrationv1.APIService) *link {
	ref := s.Spec.Service
	l := &link{x: x, service: objects.Key{Namespace: ref.Namespace, Name: ref.Name}, port: 443, clock: clock.Machine(x.config.Clock), attempted: make(chan struct{})}
	if ref.Port != nil {
		l.port = *ref.Port
	}
	conf := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: ref.Name + "." + ref.Namespace + ".svc", InsecureSkipVerify: s.Spec.InsecureSkipTLSVerify, //nolint:gosec // the APIService requests it
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return x.config.Identity() },
	}
	if len(s.Spec.CABundle) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(s.Spec.CABundle) {
			l.broken = errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	l.transport = &http.Transport{
		DialContext: l.dial, TLSClientConfig: conf, TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout,
		MaxIdleConnsPerHost: maxIdle, ForceAttemptHTTP2: true, DisableCompression: true,
	}
	return l
}

// dial connects to an endpoint of the Service. It ignores the address of the request.
func (l *link) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if l.toSelf() {
		return (&net.Dialer{Timeout: handshakeTimeout}).DialContext(ctx, network, l.x.config.Self())
	}
	return backend.Dial(ctx, l.x.config.Reader, l.service, l.port)
}

// toSelf reports whether the Service is that of this server.
func (l *link) toSelf() bool {
	return l.service == objects.Key{Namespace: metav1.NamespaceDefault, Name: "kubernetes"} && l.port == 443 && l.x.config.Self() != ""
}

// address returns the URL of the Service.
func (l *link) address(ctx context.Context) (*url.URL, error) {
	if l.toSelf() {
		return &url.URL{Scheme: "https", Host: l.x.config.Self()}, nil
	}
	obj, err := l.x.config.Reader.Get(ctx, services, l.service)
	if err != nil {
		return nil, err
	}
	s, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("the service %q is a %T", l.service.Name, obj)
	}
	host := s.Spec.ClusterIP
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		host = s.Spec.ExternalName
	case s.Spec.Type == corev1.ServiceTypeClusterIP && host == corev1.ClusterIPNone:
		return nil, errors.New(`cannot route to service with ClusterIP "None"`)
	case backend.Port(s, l.port) == nil:
		return nil, fmt.Errorf("no service port %d found for service %q", l.port, s.Name)
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(l.port)))}, nil
}

// client returns the HTTP client for the server's own requests. It has a short timeout and follows no redirects.
func (l *link) client() *http.Client {
	return &http.Client{
		Transport: l.transport, Timeout: ownTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func compare(a, b schema.GroupVersion) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
}
