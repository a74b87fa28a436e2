package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Names follow the specification "Kubernetes DNS-Based Service Discovery", version 1.1.0.
const (
	version = "1.1.0"
	ttl     = 5 // seconds, as in installations of Kubernetes: endpoints change

	reverseZone = "in-addr.arpa."
)

// records answers questions about the cluster's zone from caches.
type records struct {
	zone       string // with a dot at the end
	services   *client.Cache[*corev1.Service]
	slices     *client.Cache[*discoveryv1.EndpointSlice]
	namespaces *client.Cache[*corev1.Namespace]
	pods       *client.Cache[*corev1.Pod]
}

// slicesOf lists EndpointSlices by the key of their Service.
var slicesOf = client.NewIndex(func(s *discoveryv1.EndpointSlice) []string {
	if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
		return []string{s.Namespace + "/" + name}
	}
	return nil
})

// servicesAt lists Services by their cluster addresses.
var servicesAt = client.NewIndex(func(s *corev1.Service) []string { return s.Spec.ClusterIPs })

// slicesAt lists EndpointSlices by the addresses of their endpoints.
var slicesAt = client.NewIndex(func(s *discoveryv1.EndpointSlice) []string {
	var out []string
	for _, e := range s.Endpoints {
		out = append(out, e.Addresses...)
	}
	return out
})

// podsAt lists pods by their addresses.
var podsAt = client.NewIndex(func(p *corev1.Pod) []string {
	if p.Spec.HostNetwork || p.Status.PodIP == "" {
		return nil
	}
	return []string{p.Status.PodIP}
})

// answer is what the records say about a name. A name that exists without records of the type has no error (NODATA).
type answer struct {
	exists  bool
	records []dns.RR
	extra   []dns.RR // addresses of the targets of SRV records
}

// lookUp answers a question with a lower-case name in the zone or below reverseZone. ours is false for the address of something
// that is not in the cluster.
func (r *records) lookUp(name string, kind uint16) (a answer, ours bool) {
	if strings.HasSuffix(name, "."+reverseZone) {
		return r.reverse(name, kind)
	}
	labels := dns.SplitDomainName(strings.TrimSuffix(name, r.zone))
	switch n := len(labels); {
	case n == 0: // the zone itself
		return answer{exists: true}, true
	case n == 1 && labels[0] == "dns-version":
		return only(kind, dns.TypeTXT, &dns.TXT{Hdr: header(name, dns.TypeTXT), Txt: []string{version}}), true
	case labels[n-1] == "svc":
		return r.service(name, labels[:n-1], kind), true
	case labels[n-1] == "pod":
		return r.pod(name, labels[:n-1], kind), true
	}
	return answer{}, true
}

// search answers for a name outside the zone that a pod has in a domain of its search path. A pod without a resolv.conf of its own asks
// for such names; other pods complete them.
func (r *records) search(from netip.Addr, name string, kind uint16) (a answer, ours bool) {
	pods := r.pods.ByIndex(podsAt, from.String())
	if len(pods) == 0 || name == "." {
		return answer{}, false
	}
	for _, domain := range []string{pods[0].Namespace + ".svc.", "svc.", ""} {
		a, _ := r.lookUp(name+domain+r.zone, kind)
		if !a.exists {
			continue
		}
		for _, rr := range a.records {
			rr.Header().Name = name
		}
		return a, true
	}
	return answer{}, false
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// only returns the answer with one record, if the question is for its type.
func only(asked, kind uint16, record dns.RR) answer {
	if asked != kind && asked != dns.TypeANY {
		return answer{exists: true}
	}
	return answer{exists: true, records: []dns.RR{record}}
}

// service answers for [[endpoint | _port._protocol].]service.namespace, the name's labels before "svc".
func (r *records) service(name string, labels []string, kind uint16) answer {
	n := len(labels)
	if n < 2 {
		_, ok := r.namespaces.Get(objects.Key{Name: last(labels)})
		return answer{exists: n == 0 || ok}
	}
	svc, ok := r.services.Get(objects.Key{Namespace: labels[n-1], Name: labels[n-2]})
	if !ok {
		return answer{}
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		if n > 2 {
			return answer{}
		}
		target := dns.Fqdn(svc.Spec.ExternalName)
		return answer{exists: true, records: []dns.RR{&dns.CNAME{Hdr: header(name, dns.TypeCNAME), Target: target}}}
	}
	switch n {
	case 2:
		return addressRecords(name, kind, r.addresses(svc))
	case 3:
		return r.endpoint(name, svc, labels[0], kind)
	case 4:
		return r.ports(name, svc, labels[0], labels[1], kind)
	}
	return answer{}
}

func last(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return labels[len(labels)-1]
}

// headless reports whether a Service has no address of its own.
func headless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone
}

// addresses returns the addresses of a Service: its own, or those of its ready endpoints if it is headless.
func (r *records) addresses(svc *corev1.Service) []netip.Addr {
	var out []netip.Addr
	if !headless(svc) {
		for _, ip := range svc.Spec.ClusterIPs {
			out = appendAddr(out, ip)
		}
		return out
	}
	for _, e := range r.endpoints(svc) {
		out = append(out, e.addr)
	}
	return out
}

func appendAddr(list []netip.Addr, text string) []netip.Addr {
	if ip, err := netip.ParseAddr(text); err == nil {
		return append(list, ip)
	}
	return list
}

// endpoint is one address of a headless Service.
type endpoint struct {
	name  string // the label in front of the Service's name
	addr  netip.Addr
	slice *discoveryv1.EndpointSlice
}

func (r *records) endpoints(svc *corev1.Service) []endpoint {
	var out []endpoint
	for _, s := range r.slices.ByIndex(slicesOf, svc.Namespace+"/"+svc.Name) {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				if ip, err := netip.ParseAddr(text); err == nil {
					out = append(out, endpoint{endpointName(e, ip), ip, s})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
	return slices.CompactFunc(out, func(a, b endpoint) bool { return a.addr == b.addr && a.name == b.name && a.slice == b.slice })
}

// endpointName returns the host name of an endpoint, or a name made from its address.
func endpointName(e *discoveryv1.Endpoint, ip netip.Addr) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	return dashed(ip)
}

func dashed(ip netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(ip.String())
}

// endpoint answers for a name in front of a headless Service's.
func (r *records) endpoint(name string, svc *corev1.Service, label string, kind uint16) answer {
	if !headless(svc) {
		return answer{exists: r.hasProtocol(svc, label)}
	}
	var addrs []netip.Addr
	for _, e := range r.endpoints(svc) {
		if strings.EqualFold(e.name, label) {
			addrs = append(addrs, e.addr)
		}
	}
	if len(addrs) == 0 {
		return answer{exists: r.hasProtocol(svc, label)}
	}
	return addressRecords(name, kind, addrs)
}

// hasProtocol reports whether a name such as _tcp.SERVICE has names of ports before it.
func (r *records) hasProtocol(svc *corev1.Service, label string) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return isProtocol(label, p.Protocol) && p.Name != "" })
}

func isProtocol(label string, protocol corev1.Protocol) bool {
	return strings.EqualFold(label, "_"+string(protocol))
}

// ports answers for _port._protocol in front of a Service's name.
func (r *records) ports(name string, svc *corev1.Service, port, protocol string, kind uint16) answer {
	short, ok := strings.CutPrefix(port, "_")
	if !ok {
		return answer{}
	}
	base := fmt.Sprintf("%s.%s.svc.%s", svc.Name, svc.Namespace, r.zone)
	var a answer
	add := func(target string, number uint16, addrs ...netip.Addr) {
		a.exists = true
		if kind == dns.TypeSRV || kind == dns.TypeANY {
			a.records = append(a.records, &dns.SRV{Hdr: header(name, dns.TypeSRV), Weight: 100, Port: number, Target: target})
			a.extra = append(a.extra, addressRecords(target, dns.TypeANY, addrs).records...)
		}
	}
	if !headless(svc) {
		for _, p := range svc.Spec.Ports {
			if strings.EqualFold(p.Name, short) && p.Name != "" && isProtocol(protocol, p.Protocol) {
				add(base, uint16(p.Port), r.addresses(svc)...)
			}
		}
		return a
	}
	for _, e := range r.endpoints(svc) {
		for _, p := range e.slice.Ports {
			if p.Name != nil && p.Port != nil && p.Protocol != nil && strings.EqualFold(*p.Name, short) && isProtocol(protocol, *p.Protocol) {
				add(strings.ToLower(e.name)+"."+base, uint16(*p.Port), e.addr)
			}
		}
	}
	return a
}

// pod answers for a-b-c-d.namespace, the name's labels before "pod". Like other servers it does not check that such a pod exists.
func (r *records) pod(name string, labels []string, kind uint16) answer {
	if len(labels) < 2 {
		_, ok := r.namespaces.Get(objects.Key{Name: last(labels)})
		return answer{exists: len(labels) == 0 || ok}
	}
	if _, ok := r.namespaces.Get(objects.Key{Name: labels[1]}); !ok || len(labels) > 2 {
		return answer{}
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(labels[0], "-", "."))
	if err != nil {
		return answer{}
	}
	return addressRecords(name, kind, []netip.Addr{ip})
}

// addressRecords returns the records of addresses. A headless Service without endpoints has a name and no records.
func addressRecords(name string, kind uint16, addrs []netip.Addr) answer {
	a := answer{exists: true}
	for _, ip := range addrs {
		switch {
		case ip.Is4() && (kind == dns.TypeA || kind == dns.TypeANY):
			a.records = append(a.records, &dns.A{Hdr: header(name, dns.TypeA), A: ip.AsSlice()})
		case ip.Is6() && (kind == dns.TypeAAAA || kind == dns.TypeANY):
			a.records = append(a.records, &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: ip.AsSlice()})
		}
	}
	return a
}

// reverse answers for the address of a Service or of an endpoint of a headless one.
func (r *records) reverse(name string, kind uint16) (a answer, ours bool) {
	parts := strings.Split(strings.TrimSuffix(name, "."+reverseZone), ".")
	slices.Reverse(parts)
	ip, err := netip.ParseAddr(strings.Join(parts, "."))
	if err != nil {
		return answer{}, false
	}
	var names []string
	for _, svc := range r.services.ByIndex(servicesAt, ip.String()) {
		names = append(names, fmt.Sprintf("%s.%s.svc.%s", svc.Name, svc.Namespace, r.zone))
	}
	if len(names) == 0 {
		names = r.endpointNames(ip)
	}
	if len(names) == 0 {
		return answer{}, false
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		a.records = append(a.records, &dns.PTR{Hdr: header(name, dns.TypePTR), Ptr: n})
	}
	a.exists = true
	if kind != dns.TypePTR && kind != dns.TypeANY {
		a.records = nil
	}
	return a, true
}

func (r *records) endpointNames(ip netip.Addr) []string {
	var names []string
	for _, s := range r.slices.ByIndex(slicesAt, ip.String()) {
		svc, ok := r.services.Get(objects.Key{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]})
		if !ok || !headless(svc) {
			continue
		}
		for _, e := range r.endpoints(svc) {
			if e.addr == ip {
				names = append(names, fmt.Sprintf("%s.%s.%s.svc.%s", strings.ToLower(e.name), svc.Name, svc.Namespace, r.zone))
			}
		}
	}
	return names
}
