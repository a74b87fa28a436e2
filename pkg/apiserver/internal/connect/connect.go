// Package connect owns the subresources that lead out of the API server. Those of pods that lead to the pod's kubelet are
// log, exec, attach and portforward: it finds the kubelet by the pod's node, shows it the API server's client certificate,
// and passes bytes on; streams are not understood, only tunnelled. The subresource proxy leads to pods, nodes and Services.
package connect

import (
	"context"
	"crypto/tls"
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
	// Fail answers with an error that comes up once a connector has begun to answer by itself.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Connector serves one subresource. An error is the answer when nothing has been answered yet.
type Connector func(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error

// Connectors maps subresources to what serves them.
var Connectors = map[string]Connector{
	"attach":      attach,
	"exec":        exec,
	"log":         log,
	"portforward": portForward,
	"proxy":       proxy,
}

// Kubelets reaches the kubelets of a cluster's nodes.
type Kubelets struct {
	reader stage.Reader
	tls    *tls.Config
	client *http.Client

	turn    atomic.Uint32     // of the endpoints of Services
	anybody http.RoundTripper // to whom proxied requests go: they don't learn who we are
}

// dialTimeout is how long a kubelet may take to accept a connection.
const dialTimeout = 10 * time.Second

// NewKubelets returns the kubelets of the nodes in reader. They see the certificate of identity; theirs, which each
// makes for itself, is not checked, as Kubernetes does without a --kubelet-certificate-authority.
func NewKubelets(reader stage.Reader, identity tls.Certificate) *Kubelets {
	conf := &tls.Config{
		Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // see above
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := func(conf *tls.Config) *http.Transport {
		return &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: conf, TLSHandshakeTimeout: dialTimeout,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
		}
	}
	return &Kubelets{
		reader: reader, tls: conf, client: &http.Client{Transport: transport(conf)},
		anybody: transport(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}), //nolint:gosec // as Kubernetes
	}
}

// Close ends the connections that are kept for the next request.
func (k *Kubelets) Close() {
	k.client.CloseIdleConnections()
	utilnet.CloseIdleConnectionsFor(k.anybody)
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

// host returns where the kubelet of a node listens.
func (k *Kubelets) host(ctx context.Context, name string) (string, error) {
	obj, err := k.reader.Get(ctx, nodes, objects.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return "", apierrors.NewNotFound(pods, name) // sic: Kubernetes names the wrong resource
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

// addressOf returns the node's address that is most likely to be reachable from here.
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
