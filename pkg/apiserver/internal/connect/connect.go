// Package connect owns the subresources that connect to another server. log, exec, attach and portforward of a pod connect to
// the kubelet of the pod's node, with the API server's client certificate; streams are tunnelled, not interpreted. proxy
// connects to pods, nodes and Services.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	pods  = schema.GroupResource{Resource: "pods"}
	nodes = schema.GroupResource{Resource: "nodes"}
)

// Target is the object that a request connects to.
type Target struct {
	objects.Key
	Resource string // of the core group
	// Fail responds with an error. A connector calls it after it has handed the request to a library.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Connector serves one subresource. It returns an error only before it has written a response.
type Connector func(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error

// Connectors lists the connectors by subresource.
var Connectors = map[string]Connector{
	"attach":      attach,
	"exec":        exec,
	"log":         log,
	"portforward": portForward,
	"proxy":       proxy,
}

// Kubelets connects to the kubelets of a cluster's nodes.
type Kubelets struct {
	reader   stage.Reader
	verified func(node string) bool
	trusted  transports // for verified nodes
	others   transports

	nextEndpoint atomic.Uint32 // counts the requests to Services, whose endpoints take turns
	proxied      transports    // to pods and other ports of nodes: without the API server's certificate
}

// dialTimeout is how long a kubelet may take to accept a connection.
const dialTimeout = 10 * time.Second

// transports connect to the same servers: requests for ordinary requests, streams for those that change the protocol.
type transports struct {
	requests http.RoundTripper
	streams  http.RoundTripper
}

// Config is the input of NewKubelets.
type Config struct {
	Reader      stage.Reader
	Identity    tls.Certificate // the client certificate that kubelets see
	Authorities *x509.CertPool  // of serving certificates
	Clock       clock.Clock

	// Verified reports whether the serving certificate of a node's kubelet is verified against Authorities; nil: none is.
	// Other kubelets create their own certificates, which are not verified, as in Kubernetes without
	// --kubelet-certificate-authority.
	Verified func(node string) bool
}

// NewKubelets returns the connections to the kubelets of the nodes in c.Reader.
func NewKubelets(c Config) *Kubelets {
	if c.Verified == nil {
		c.Verified = func(string) bool { return false }
	}
	trusted := &tls.Config{Certificates: []tls.Certificate{c.Identity}, MinVersion: tls.VersionTLS12, RootCAs: c.Authorities, Time: clock.Machine(c.Clock).Now}
	others := trusted.Clone()
	others.InsecureSkipVerify = true
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := func(conf *tls.Config) *http.Transport {
		return &http.Transport{
			DialContext: addr.Dial(dialer), TLSClientConfig: conf, TLSHandshakeTimeout: dialTimeout,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
		}
	}
	both := func(conf *tls.Config) transports {
		streams := transport(conf)
		streams.DialContext = dialBound(dialer)
		return transports{transport(conf), streams}
	}
	return &Kubelets{
		reader: c.Reader, verified: c.Verified, trusted: both(trusted), others: both(others),
		proxied: both(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}), //nolint:gosec // as Kubernetes
	}
}

// Close closes idle connections.
func (k *Kubelets) Close() {
	utilnet.CloseIdleConnectionsFor(k.trusted.requests)
	utilnet.CloseIdleConnectionsFor(k.others.requests)
	utilnet.CloseIdleConnectionsFor(k.proxied.requests)
}

func (k *Kubelets) pod(ctx context.Context, key objects.Key) (*corev1.Pod, error) {
	obj, err := k.reader.Get(ctx, pods, key)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("unexpected object type: %T", obj))
	}
	return pod, nil
}

// to returns the transports for the kubelet of a node.
func (k *Kubelets) to(node string) transports {
	if k.verified(node) {
		return k.trusted
	}
	return k.others
}

// host returns HOST:PORT of the kubelet of a node.
func (k *Kubelets) host(ctx context.Context, name string) (string, error) {
	obj, err := k.reader.Get(ctx, nodes, objects.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return "", apierrors.NewNotFound(pods, name) // Kubernetes' message, which names the wrong resource
	}
	if err != nil {
		return "", err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return "", apierrors.NewInternalError(fmt.Errorf("unexpected object type: %T", obj))
	}
	address := addressOf(node)
	if address == "" {
		return "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		port = 10250
	}
	return net.JoinHostPort(address, strconv.Itoa(int(port))), nil
}

// addressOf returns the node's internal IP, else its host name; "" without either.
func addressOf(node *corev1.Node) string {
	for _, want := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeHostName} {
		for _, a := range node.Status.Addresses {
			if a.Type == want {
				return a.Address
			}
		}
	}
	return ""
}

// kubeletURL returns the URL of a path of the kubelet that runs pod.
func (k *Kubelets) kubeletURL(ctx context.Context, pod *corev1.Pod, query url.Values, path ...string) (*url.URL, error) {
	host, err := k.host(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	u := &url.URL{Scheme: "https", Host: host, Path: "/", RawQuery: query.Encode()}
	return u.JoinPath(path...), nil
}
