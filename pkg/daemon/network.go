package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/network/dns"
	"github.com/minikctl/minikctl/pkg/network/ingress"
	"github.com/minikctl/minikctl/pkg/network/proxy"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

// servesServices reports whether this daemon listens on the addresses of Services: it runs the API server, which allocates them, and
// nodes with real pods. Other systems than Linux have one loopback address only.
func (d *Daemon) servesServices() bool {
	return runtime.GOOS == "linux" && d.cfg.Runs("apiserver") && d.cfg.Runs("kubelet") && d.realNodes()
}

// serviceWarnings returns a function that lists what this daemon does not serve of a Service; nil with simulated nodes only, whose pods
// have nothing to connect to.
func (d *Daemon) serviceWarnings() func(*corev1.ServiceSpec) []string {
	switch {
	case !d.cfg.Runs("kubelet") || !d.realNodes():
		return nil
	case d.servesServices():
		return proxy.Warnings
	}
	return func(*corev1.ServiceSpec) []string {
		return []string{"nothing listens on the addresses of Services on this machine: the object is stored, and that is all"}
	}
}

// serviceAddresses returns the range of the Services' addresses; the zero value is Kubernetes' usual one.
func (d *Daemon) serviceAddresses() (netip.Prefix, error) {
	if !d.servesServices() {
		return netip.Prefix{}, nil
	}
	r, err := d.addresses()
	if err != nil {
		return netip.Prefix{}, err
	}
	return r.Services(), nil
}

// loadBalancers returns the range of the addresses of Services of type LoadBalancer; the zero value if this daemon serves none.
func (d *Daemon) loadBalancers() (netip.Prefix, error) {
	if !d.servesServices() {
		return netip.Prefix{}, nil
	}
	r, err := d.addresses()
	if err != nil {
		return netip.Prefix{}, err
	}
	return r.LoadBalancers(), nil
}

// addresses claims the daemon's range of the addresses of pods and Services.
func (d *Daemon) addresses() (addr.Range, error) {
	r, err := addr.Claim(addr.Dir(), d.paths.Data)
	if err != nil {
		return 0, fmt.Errorf("claim pod addresses: %w", err)
	}
	return r, nil
}

// dnsNumber is the number of the DNS server's address in the range of the Services', as in installations of Kubernetes.
const dnsNumber = 10

// addDNS adds the cluster's DNS server and returns its address; the zero value if this daemon has none. caches are those of the kubelets.
func (d *Daemon) addDNS(ctx context.Context, caches *client.Caches) (netip.Addr, error) {
	if !d.servesServices() {
		return netip.Addr{}, nil
	}
	r, err := d.addresses()
	if err != nil {
		return netip.Addr{}, err
	}
	at := r.Services().Addr()
	for range dnsNumber {
		at = at.Next()
	}
	keeper, err := d.socketKeeper(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	s, err := dns.New(dns.Config{
		Caches: caches, Domain: kubelet.ClusterDomain, Listen: netip.AddrPortFrom(at, dnsPort),
		Resolvers: dns.MachineResolvers("/etc/resolv.conf", r.Prefix()),
		Held:      keeper.HeldSockets,
	})
	if err != nil {
		slog.Warn("pods use the machine's resolvers", "err", err)
		return netip.Addr{}, nil
	}
	keeper.KeepSockets(s.Sockets)
	d.services = append(d.services, service{name: "dns", run: s.Run})
	return at, nil
}

// socketKeeper keeps listening sockets of the daemon open until the next daemon has them.
type socketKeeper interface {
	KeepSockets(open func() ([]*os.File, error))
	HeldSockets() ([]*os.File, error)
}

// noKeeper keeps nothing.
type noKeeper struct{}

func (noKeeper) KeepSockets(func() ([]*os.File, error)) {}
func (noKeeper) HeldSockets() ([]*os.File, error)       { return nil, nil }

// socketKeeper returns the runtime of the first node that is one, which it opens.
func (d *Daemon) socketKeeper(ctx context.Context) (socketKeeper, error) {
	for _, n := range d.cfg.Nodes {
		if _, _, err := d.runtime(ctx, n.Runtime.Name, n.names()[0]); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.names()[0], err)
		}
		if k, ok := d.nodes[n.Runtime.Name].(socketKeeper); ok {
			return k, nil
		}
	}
	return noKeeper{}, nil
}

const dnsPort = 53

// addProxy adds the proxy for Services. caches are those of the kubelets.
func (d *Daemon) addProxy(caches *client.Caches) error {
	if !d.servesServices() {
		return nil
	}
	r, err := d.addresses()
	if err != nil {
		return err
	}
	c, err := d.api.client(nodesReader, "kube-proxy", user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	events := client.NewRecorder(c, d.clock, d.source, "kube-proxy", "")
	p := proxy.New(proxy.Config{
		Caches: caches, Events: events, Clock: d.clock, Range: r, NodeIPs: []netip.Addr{netip.MustParseAddr(kubeletHost)}, Routers: d.routers(),
	})
	d.services = append(d.services,
		service{name: "events of the proxy", run: events.Run},
		d.counted(service{name: "proxy", run: p.Run}))
	return nil
}

// routers returns the open runtimes that lead their pods to Services without the proxy.
func (d *Daemon) routers() []proxy.Router {
	var all []proxy.Router
	for _, nodes := range d.nodes {
		if r, ok := nodes.(proxy.Router); ok {
			all = append(all, r)
		}
	}
	return all
}

// ingressAddress is the number of the ingress' address among the daemon's own, and the other constants its ports where the daemon may
// not listen on 80 and 443.
const (
	ingressAddress = 80
	alternateHTTP  = 8080
	alternateHTTPS = 8443
)

// addIngress adds the cluster's own ingress controller. caches are those of the kubelets.
func (d *Daemon) addIngress(caches *client.Caches) error {
	if !d.servesServices() {
		return nil
	}
	r, err := d.addresses()
	if err != nil {
		return err
	}
	c, err := d.api.client(nodesReader, "ingress", user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	i := ingress.New(ingress.Config{
		Client: c, Caches: caches, Clock: d.clock, Class: networking.IngressController, At: r.Own(ingressAddress),
		HTTP: 80, HTTPS: 443, AlternateHTTP: alternateHTTP, AlternateHTTPS: alternateHTTPS,
	})
	d.services = append(d.services, d.counted(service{name: "ingress", run: i.Run}))
	return nil
}
