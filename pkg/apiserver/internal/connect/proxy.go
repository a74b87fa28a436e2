package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"

	upstream "github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	services  = schema.GroupResource{Resource: "services"}
	endpoints = schema.GroupResource{Resource: "endpoints"}
)

// backend is the destination of a proxied request.
type backend struct {
	scheme, host string
	node         string // of the kubelet to reach, which may share its address with others; "": another server
	transports   transports
}

// proxy forwards a request to a pod, a node, or a pod of a Service, and returns its response.
func proxy(k *Kubelets, w http.ResponseWriter, r *http.Request, to Target) error {
	find := map[string]func(*Kubelets, context.Context, objects.Key) (backend, error){
		pods.Resource: (*Kubelets).podBackend, nodes.Resource: (*Kubelets).nodeBackend, services.Resource: (*Kubelets).serviceBackend,
	}[to.Resource]
	b, err := find(k, r.Context(), to.Key)
	if err != nil {
		return err
	}
	location := &url.URL{Scheme: b.scheme, Host: b.host, Path: utilnet.JoinPreservingTrailingSlash("", pathBelow(r.URL.Path, to))}
	out := r.Clone(r.Context())
	out.Header.Del("Authorization") // the credentials are for the API server only
	if b.node != "" {
		out.Host = b.node
	}
	through := b.transports.requests
	if httpstream.IsUpgradeRequest(r) {
		through = b.transports.streams
	}
	utilproxy.NewUpgradeAwareHandler(location, through, true, false, responder(to.Fail)).ServeHTTP(upstream.Hijackable(w), out)
	return nil
}

// responder responds with the error of a connection to a backend.
type responder func(w http.ResponseWriter, r *http.Request, err error)

func (f responder) Error(w http.ResponseWriter, r *http.Request, err error) { f(w, r, err) }

// pathBelow returns the rest of a request's path after the subresource: "" or a path with a leading slash.
func pathBelow(path string, to Target) string {
	_, below, _ := strings.Cut(path, "/"+to.Resource+"/"+to.Name+"/proxy")
	return below
}

// errNotAllowed is the error of an address that no pod can have.
var errNotAllowed = errors.New("address not allowed")

// checkAddress refuses addresses that no pod can have. Loopback is allowed: pods of the process runtime have it.
func checkAddress(address string) error {
	ip := net.ParseIP(address)
	if ip == nil || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() || ip.IsUnspecified() {
		return errNotAllowed
	}
	return nil
}

// podBackend finds a pod by [SCHEME:]NAME[:PORT].
func (k *Kubelets) podBackend(ctx context.Context, id objects.Key) (backend, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id.Name)
	if !ok {
		return backend{}, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id.Name))
	}
	pod, err := k.pod(ctx, objects.Key{Namespace: id.Namespace, Name: name})
	if err != nil {
		return backend{}, err
	}
	ip := podIP(pod)
	if err := checkAddress(ip); err != nil {
		return backend{}, apierrors.NewBadRequest(err.Error())
	}
	if port == "" {
		port = firstPort(pod)
	}
	host := ip
	if port != "" {
		host = net.JoinHostPort(ip, port)
	}
	return backend{scheme: scheme, host: host, transports: k.proxied}, nil
}

func podIP(pod *corev1.Pod) string {
	if len(pod.Status.PodIPs) > 0 {
		return pod.Status.PodIPs[0].IP
	}
	return pod.Status.PodIP
}

// firstPort returns the first port that a container of the pod declares; "" if there is none.
func firstPort(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
			return strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	return ""
}

// nodeBackend finds a node by [SCHEME:]NAME[:PORT]: its kubelet, or another port.
func (k *Kubelets) nodeBackend(ctx context.Context, id objects.Key) (backend, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id.Name)
	if !ok {
		return backend{}, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id.Name))
	}
	if _, err := k.reader.Get(ctx, nodes, objects.Key{Name: name}); err != nil {
		return backend{}, err
	}
	kubelet, err := k.host(ctx, name)
	if err != nil {
		return backend{}, err
	}
	address, kubeletPort, err := net.SplitHostPort(kubelet)
	if err != nil {
		return backend{}, err
	}
	if port == "" || port == kubeletPort {
		return backend{scheme: "https", host: kubelet, node: name, transports: k.to(name)}, nil
	}
	if err := checkAddress(address); net.ParseIP(address) != nil && err != nil {
		return backend{}, apierrors.NewBadRequest(err.Error())
	}
	return backend{scheme: scheme, host: net.JoinHostPort(address, port), transports: k.proxied}, nil
}

// serviceBackend finds a pod of a Service by [SCHEME:]NAME[:PORT], the port by its name or number.
func (k *Kubelets) serviceBackend(ctx context.Context, id objects.Key) (backend, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id.Name)
	if !ok {
		return backend{}, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id.Name))
	}
	key := objects.Key{Namespace: id.Namespace, Name: name}
	if n, err := strconv.ParseInt(port, 10, 64); err == nil {
		if port, err = k.portName(ctx, key, n); err != nil {
			return backend{}, err
		}
	}
	obj, err := k.reader.Get(ctx, endpoints, key)
	if err != nil {
		return backend{}, err
	}
	ends, ok := obj.(*corev1.Endpoints)
	if !ok {
		return backend{}, apierrors.NewInternalError(fmt.Errorf("unexpected object type: %T", obj))
	}
	if len(ends.Subsets) == 0 {
		return backend{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	if host := k.pick(ctx, ends, port); host != "" {
		return backend{scheme: scheme, host: host, transports: k.proxied}, nil
	}
	return backend{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id.Name))
}

// portName returns the name of a Service's port.
func (k *Kubelets) portName(ctx context.Context, key objects.Key, number int64) (string, error) {
	obj, err := k.reader.Get(ctx, services, key)
	if err != nil {
		return "", err
	}
	if svc, ok := obj.(*corev1.Service); ok {
		for _, p := range svc.Spec.Ports {
			if int64(p.Port) == number {
				return p.Name, nil
			}
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, key.Name))
}

// pick returns the host and port of an endpoint that has a port of that name and is a pod, round robin; "" if there is none.
func (k *Kubelets) pick(ctx context.Context, ends *corev1.Endpoints, port string) string {
	turn := int(k.nextEndpoint.Add(1))
	for i := range ends.Subsets {
		subset := &ends.Subsets[(turn+i)%len(ends.Subsets)]
		at := slices.IndexFunc(subset.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
		if at < 0 {
			continue
		}
		for j := range subset.Addresses {
			a := &subset.Addresses[(turn+j)%len(subset.Addresses)]
			if k.isPod(ctx, a) {
				return net.JoinHostPort(a.IP, strconv.Itoa(int(subset.Ports[at].Port)))
			}
		}
	}
	return ""
}

// isPod reports whether an endpoint's address is that of the pod that it names. A user that may write Endpoints must not reach
// other addresses through the API server.
func (k *Kubelets) isPod(ctx context.Context, a *corev1.EndpointAddress) bool {
	if a.TargetRef == nil || a.TargetRef.Kind != "Pod" {
		return false
	}
	pod, err := k.pod(ctx, objects.Key{Namespace: a.TargetRef.Namespace, Name: a.TargetRef.Name})
	if err != nil || checkAddress(a.IP) != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.IP })
}
