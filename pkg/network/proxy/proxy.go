// Package proxy owns the way to Services: it listens on their addresses and ports and passes connections and packets on to their
// endpoints, and on the host ports of pods. It does in a process what kube-proxy does with rules of the kernel, so that it needs no
// privileges. The addresses are loopback addresses of this machine, so that nothing addressed to a Service leaves it, and clients outside
// the cluster reach Services, too.
//
// A frontend exists only while it has endpoints: without any, the kernel refuses connections at once. The endpoints see the client's
// address as the source. Connections end with the process of the proxy.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// Config configures a Proxy.
type Config struct {
	Caches  *client.Caches // the caller runs them
	Events  *client.Recorder
	Clock   clock.Clock  // the cluster's
	Range   addr.Range   // of the daemon; the Services' part of it
	NodeIPs []netip.Addr // on which node ports are served
	Routers []Router     // of the runtimes
}

// Proxy listens for the Services of a cluster.
type Proxy struct {
	cfg     Config
	hosts   addresses
	sockets sockets
	machine clock.Clock

	services *client.Cache[*corev1.Service]
	slices   *client.Cache[*discoveryv1.EndpointSlice]
	pods     *client.Cache[*corev1.Pod]

	mu      sync.Mutex
	open    map[frontend]*opened
	drained sync.WaitGroup
	ending  map[server]struct{} // that accept no more, and still have connections

	routes routes
}

// server serves one frontend.
type server interface {
	refuse() // accepts no further clients
	close()
}

// opened is a frontend that is served.
type opened struct {
	owner objects.Key // the Service, or the host port
	*chooser
	server server
}

// slicesOf lists EndpointSlices by the key of their Service.
var slicesOf = client.NewIndex(func(s *discoveryv1.EndpointSlice) []string {
	if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
		return []string{s.Namespace + "/" + name}
	}
	return nil
})

// podsAt lists pods by their address.
var podsAt = client.NewIndex(func(p *corev1.Pod) []string {
	if p.Status.PodIP == "" || p.Spec.HostNetwork {
		return nil
	}
	return []string{p.Status.PodIP}
})

// New returns a Proxy that serves once it runs.
func New(cfg Config) *Proxy {
	cidrs := client.CacheOf[*networkingv1.ServiceCIDR](cfg.Caches, serviceCIDRs)
	return &Proxy{
		routes: newRoutes(cfg, cidrs),
		cfg:    cfg, hosts: addresses{services: cfg.Range.Services(), nodes: cfg.NodeIPs}, sockets: newSockets(), machine: clock.Machine(cfg.Clock),
		services: client.CacheOf[*corev1.Service](cfg.Caches, client.Services),
		slices:   client.CacheOf[*discoveryv1.EndpointSlice](cfg.Caches, client.EndpointSlices),
		pods:     cfg.Caches.Pods(),
		open:     map[frontend]*opened{}, ending: map[server]struct{}{},
	}
}

// Run serves until ctx ends, and then closes all connections.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.close()
	if err := p.cfg.Caches.WaitSynced(ctx); err != nil {
		return nil // ctx ended first
	}
	p.setRoutes()
	return reconcile.RunAll(ctx, p.cfg.Clock, "start of the proxy",
		reconcile.Loop{
			Name: "proxy",
			Sources: []reconcile.Source{
				reconcile.Watch(p.services),
				reconcile.Map(p.slices, func(ch client.Change[*discoveryv1.EndpointSlice]) []objects.Key {
					s := ch.New
					if ch.Deleted() {
						s = ch.Old
					}
					return []objects.Key{{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}}
				}),
			},
			Reconcile: p.reconcile,
		},
		reconcile.Loop{Name: "host ports", Sources: []reconcile.Source{reconcile.Map(p.pods, hostPortKeys)}, Reconcile: p.reconcileHostPort},
		reconcile.Loop{Name: "ranges of Services", Sources: []reconcile.Source{reconcile.Watch(p.routes.cidrs)}, Reconcile: p.reconcileRanges},
	)
}

// retryListen is the pause before the next attempt to listen on an address that another program has.
const retryListen = 10 * time.Second

func (p *Proxy) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	want := map[frontend]backends{}
	svc, ok := p.services.Get(key)
	if ok {
		want = frontendsOf(svc, p.slicesOf(key), p.hosts)
	}
	p.routes.change(key, p.routesOf(svc))
	return p.apply(key, want, func(f frontend, err error) {
		p.cfg.Events.Event(ctx, svc, corev1.EventTypeWarning, "FailedToListen", notListening(f, err))
	}), nil
}

func (p *Proxy) slicesOf(svc objects.Key) []*discoveryv1.EndpointSlice {
	return p.slices.ByIndex(slicesOf, svc.Namespace+"/"+svc.Name)
}

func notListening(f frontend, err error) string {
	return fmt.Sprintf("Error listening on %s/%s: %v", f.address, f.protocol, err)
}

// apply makes want the frontends of an owner. It returns the time until the next attempt if it can't listen on one, 0 otherwise.
func (p *Proxy) apply(owner objects.Key, want map[frontend]backends, failed func(frontend, error)) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f, o := range p.open {
		if _, ok := want[f]; !ok && o.owner == owner {
			p.refuse(f)
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(want), compareFrontends) {
		if err := p.serve(owner, f, want[f]); err != nil {
			failed(f, err)
			wait = retryListen
		}
	}
	return wait
}

// serve makes a frontend lead to its backends. p.mu must be held.
func (p *Proxy) serve(owner objects.Key, f frontend, to backends) error {
	o := p.open[f]
	if o == nil {
		o = &opened{owner: owner, chooser: &chooser{nodeOf: p.nodeOf, now: p.machine.Now}}
		o.set(to)
		var err error
		if o.server, err = p.listen(f, o.chooser); err != nil {
			return err
		}
		p.open[f] = o
		return nil
	}
	if o.owner != owner {
		return fmt.Errorf("%s has the address", o.owner)
	}
	o.set(to)
	return nil
}

func (p *Proxy) listen(f frontend, c *chooser) (server, error) {
	s, err := p.listenAt(f.protocol, f.address, c)
	if own := p.cfg.Range.Prefix(); errors.Is(err, syscall.EACCES) && own.Contains(f.address.Addr()) {
		if port, ok := addr.Unprivileged(f.address.Port()); ok { // the supervisor sends the connections of pods there
			return p.listenAt(f.protocol, netip.AddrPortFrom(f.address.Addr(), port), c)
		}
	}
	return s, err
}

func (p *Proxy) listenAt(protocol corev1.Protocol, at netip.AddrPort, c *chooser) (server, error) {
	var s server
	var err error
	if protocol == corev1.ProtocolUDP {
		s, err = serveUDP(at, c, p.sockets, p.machine)
	} else {
		s, err = serveTCP(at, c, p.sockets, p.machine)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the address
	}
	return s, err
}

// refuse ends a frontend and keeps its connections. p.mu must be held.
func (p *Proxy) refuse(f frontend) {
	s := p.open[f].server
	delete(p.open, f)
	s.refuse()
	tcp, ok := s.(*tcpServer)
	if !ok {
		return
	}
	p.ending[s] = struct{}{}
	p.drained.Go(func() {
		tcp.wg.Wait()
		p.mu.Lock()
		delete(p.ending, s)
		p.mu.Unlock()
	})
}

// close ends all frontends and connections.
func (p *Proxy) close() {
	p.mu.Lock()
	var all []server
	for f, o := range p.open {
		all = append(all, o.server)
		delete(p.open, f)
	}
	all = append(all, slices.Collect(maps.Keys(p.ending))...)
	p.mu.Unlock()
	for _, s := range all {
		s.close()
	}
	p.drained.Wait()
}

// nodeOf returns the node of the pod with an address, "" if there is none.
func (p *Proxy) nodeOf(ip netip.Addr) string {
	for _, pod := range p.pods.ByIndex(podsAt, ip.String()) {
		if pod.DeletionTimestamp == nil || pod.Status.Phase == corev1.PodRunning {
			return pod.Spec.NodeName
		}
	}
	return ""
}
