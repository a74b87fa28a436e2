package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// frontend is an address and port of a Service on which the proxy listens.
type frontend struct {
	protocol corev1.Protocol // TCP or UDP
	address  netip.AddrPort
}

// backends are where the connections to a frontend go.
type backends struct {
	endpoints []endpoint
	affinity  time.Duration  // a client stays with its endpoint for so long after its last connection; 0: it does not
	local     bool           // a client in a pod is sent only to endpoints on its own node
	sources   []netip.Prefix // of the clients that are served; nil: all are
}

type endpoint struct {
	address netip.AddrPort
	node    string
}

// frontendsOf returns the frontends of a Service on the addresses that hosts names, and where they lead. slices are the Service's
// EndpointSlices. A frontend without endpoints is left out, so that clients are refused at once, unless hosts are those of pods.
func frontendsOf(svc *corev1.Service, slices []*discoveryv1.EndpointSlice, hosts addresses) map[frontend]backends {
	out := map[frontend]backends{}
	if left(svc) {
		return out
	}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		if !served(port.Protocol) {
			continue
		}
		to := backends{endpoints: endpointsOf(slices, port), affinity: affinityOf(svc)}
		if len(to.endpoints) == 0 && !hosts.pods {
			continue
		}
		add := func(ips []netip.Addr, number int32, to backends) {
			for _, ip := range ips {
				if number > 0 {
					out[frontend{port.Protocol, netip.AddrPortFrom(ip, uint16(number))}] = to
				}
			}
		}
		inside := to
		inside.local = svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		add(hosts.cluster(svc), port.Port, inside)
		// All nodes have the same address, so that every endpoint is local to it (externalTrafficPolicy).
		add(hosts.listenable(svc.Spec.ExternalIPs, hosts.external), port.Port, to)
		add(hosts.nodes, port.NodePort, to)
		to.sources = sourcesOf(svc)
		add(hosts.balancers(svc), port.Port, to)
	}
	return out
}

// left reports whether a Service is left to another proxy, or is headless by its label.
func left(svc *corev1.Service) bool {
	const another = "service.kubernetes.io/service-proxy-name"
	_, proxied := svc.Labels[another]
	_, headless := svc.Labels[corev1.IsHeadlessService]
	return proxied || headless
}

// addresses are those on which the proxy may listen, or those at which pods reach Services.
type addresses struct {
	services netip.Prefix // of clusters' Services; the machine's loopback
	nodes    []netip.Addr
	pods     bool // the supervisor leads pods from any address to the endpoints
}

// external reports whether an address of a Service that is not its cluster address is one of addresses.
func (a addresses) external(ip netip.Addr) bool { return a.pods || ip.IsLoopback() }

// cluster returns the cluster addresses of a Service, without those of other machines.
func (a addresses) cluster(svc *corev1.Service) []netip.Addr {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	return a.listenable(svc.Spec.ClusterIPs, func(ip netip.Addr) bool { return a.pods || a.services.Contains(ip) })
}

// balancers returns the addresses of a Service at the cluster's load balancer. Those with another mode than VIP lead to a balancer of
// another kind, which connections have to pass.
func (a addresses) balancers(svc *corev1.Service) []netip.Addr {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var ips []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP {
			ips = append(ips, in.IP)
		}
	}
	return a.listenable(ips, a.external)
}

// sourcesOf returns the ranges of the clients that a Service's load balancer serves; nil: it serves all.
func sourcesOf(svc *corev1.Service) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range svc.Spec.LoadBalancerSourceRanges {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (a addresses) listenable(ips []string, may func(netip.Addr) bool) []netip.Addr {
	var out []netip.Addr
	for _, s := range ips {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Is4() && may(ip) {
			out = append(out, ip)
		}
	}
	return out
}

func affinityOf(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
}

// endpointsOf returns the endpoints for one port of a Service: the ready ones, or without any those that still serve while they
// terminate. They are sorted and without duplicates.
func endpointsOf(all []*discoveryv1.EndpointSlice, port *corev1.ServicePort) []endpoint {
	var ready, terminating []endpoint
	for _, s := range all {
		number, ok := portOf(s, port)
		if !ok {
			continue
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			list := endpointAt(e, number)
			switch c := e.Conditions; {
			case c.Ready == nil || *c.Ready:
				ready = append(ready, list...)
			case (c.Serving == nil || *c.Serving) && c.Terminating != nil && *c.Terminating:
				terminating = append(terminating, list...)
			}
		}
	}
	if len(ready) == 0 {
		ready = terminating
	}
	slices.SortFunc(ready, func(a, b endpoint) int { return a.address.Compare(b.address) })
	return slices.CompactFunc(ready, func(a, b endpoint) bool { return a.address == b.address })
}

// portOf returns the number that a slice has for a Service's port. A slice without a number accepts every port.
func portOf(s *discoveryv1.EndpointSlice, port *corev1.ServicePort) (uint16, bool) {
	if s.AddressType != discoveryv1.AddressTypeIPv4 {
		return 0, false
	}
	for _, p := range s.Ports {
		name, protocol := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if name != port.Name || protocol != port.Protocol {
			continue
		}
		if p.Port == nil {
			return uint16(port.Port), true
		}
		return uint16(*p.Port), true
	}
	return 0, false
}

func endpointAt(e *discoveryv1.Endpoint, port uint16) []endpoint {
	var out []endpoint
	for _, s := range e.Addresses {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			continue
		}
		at := endpoint{address: netip.AddrPortFrom(ip, port)}
		if e.NodeName != nil {
			at.node = *e.NodeName
		}
		out = append(out, at)
		break // consumers use the first address: the others are reserved
	}
	return out
}

// compareFrontends orders frontends for stable events and logs.
func compareFrontends(a, b frontend) int {
	return cmp.Or(cmp.Compare(a.protocol, b.protocol), a.address.Compare(b.address))
}
