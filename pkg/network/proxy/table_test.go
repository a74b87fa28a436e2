package proxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func endpoints(ports []discoveryv1.EndpointPort, list ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: ports, Endpoints: list}
}

func at(ip, node string, conditions ...bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node}
	if len(conditions) == 3 {
		e.Conditions = discoveryv1.EndpointConditions{Ready: &conditions[0], Serving: &conditions[1], Terminating: &conditions[2]}
	}
	return e
}

func port(name string, number int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol}
}

func TestFrontends(t *testing.T) {
	hosts := addresses{services: netip.MustParsePrefix("127.7.128.0/17"), nodes: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	web := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	http := []discoveryv1.EndpointPort{port("http", 8080, corev1.ProtocolTCP)}
	local := corev1.ServiceInternalTrafficPolicyLocal
	for _, c := range []struct {
		name   string
		spec   corev1.ServiceSpec
		status corev1.ServiceStatus
		slices []*discoveryv1.EndpointSlice
		want   string
	}{
		{"ready endpoints, sorted and once", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: web}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.2", "b"), at("127.7.1.1", "a")), endpoints(http, at("127.7.1.2", "b"))},
			"TCP 127.7.200.1:80 -> 127.7.1.1:8080@a 127.7.1.2:8080@b"},
		{"not ready", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: web}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a", false, false, false), at("127.7.1.2", "a", false, true, true), at("127.7.1.3", "a", true, true, false))},
			"TCP 127.7.200.1:80 -> 127.7.1.3:8080@a"},
		{"only terminating", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: web}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a", false, false, true), at("127.7.1.2", "a", false, true, true))},
			"TCP 127.7.200.1:80 -> 127.7.1.2:8080@a"},
		{"no endpoints", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: web}, corev1.ServiceStatus{}, nil, ""},
		{"headless", corev1.ServiceSpec{ClusterIPs: []string{"None"}, Ports: web}, corev1.ServiceStatus{}, []*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))}, ""},
		{"another cluster's address", corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.5"}, Ports: web}, corev1.ServiceStatus{}, []*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))}, ""},
		{"the protocol counts", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints([]discoveryv1.EndpointPort{port("dns", 5353, corev1.ProtocolTCP), port("dns", 5354, corev1.ProtocolUDP)}, at("127.7.1.1", "a"))},
			"UDP 127.7.200.1:53 -> 127.7.1.1:5354@a"},
		{"node port, external and load balancer's addresses", corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerSourceRanges: []string{" 127.7.1.0/24"},
			ClusterIPs: []string{"127.7.200.1"}, ExternalIPs: []string{"127.7.250.9", "192.0.2.1"}, InternalTrafficPolicy: &local,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}},
		}, corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "127.7.250.10"}, {IP: "127.7.250.11", IPMode: new(corev1.LoadBalancerIPModeProxy)}}}},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))},
			"TCP 127.0.0.1:30080 -> 127.7.1.1:8080@a\nTCP 127.7.200.1:80 -> local 127.7.1.1:8080@a\nTCP 127.7.250.9:80 -> 127.7.1.1:8080@a\nTCP 127.7.250.10:80 -> for [127.7.1.0/24] 127.7.1.1:8080@a"},
		{"the address of a Service that was of type LoadBalancer", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, Ports: web},
			corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "127.7.250.10"}}}},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))}, "TCP 127.7.200.1:80 -> 127.7.1.1:8080@a"},
		{"affinity", corev1.ServiceSpec{ClusterIPs: []string{"127.7.200.1"}, SessionAffinity: corev1.ServiceAffinityClientIP, Ports: web}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))}, "TCP 127.7.200.1:80 -> 3h0m0s 127.7.1.1:8080@a"},
		{"external name", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: web}, corev1.ServiceStatus{},
			[]*discoveryv1.EndpointSlice{endpoints(http, at("127.7.1.1", "a"))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := frontendsOf(&corev1.Service{Spec: c.spec, Status: c.status}, c.slices, hosts)
			var lines []string
			for _, f := range slices.SortedFunc(maps.Keys(got), compareFrontends) {
				lines = append(lines, fmt.Sprintf("%s %s ->%s", f.protocol, f.address, describe(got[f])))
			}
			if text := strings.Join(lines, "\n"); text != c.want {
				t.Errorf("got\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}

func describe(b backends) string {
	text := ""
	if b.local {
		text += " local"
	}
	if b.affinity > 0 {
		text += " " + b.affinity.String()
	}
	if len(b.sources) > 0 {
		text += fmt.Sprintf(" for %v", b.sources)
	}
	for _, e := range b.endpoints {
		text += fmt.Sprintf(" %s@%s", e.address, e.node)
	}
	return text
}

func TestChoose(t *testing.T) {
	now := time.Unix(0, 0)
	a := endpoint{netip.MustParseAddrPort("127.7.1.1:80"), "a"}
	b := endpoint{netip.MustParseAddrPort("127.7.1.2:80"), "b"}
	one, two := netip.MustParseAddr("127.7.1.8"), netip.MustParseAddr("127.7.1.9")
	c := &chooser{now: func() time.Time { return now }, nodeOf: func(ip netip.Addr) string {
		if ip == one {
			return "b"
		}
		return ""
	}}
	first := func(client netip.Addr) string {
		list := c.choose(client)
		if len(list) == 0 {
			return "none"
		}
		return list[0].node
	}
	expect := func(what, want string, clients ...netip.Addr) {
		t.Helper()
		got := ""
		for _, client := range clients {
			got += first(client)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	c.set(backends{endpoints: []endpoint{a, b}})
	expect("in turn", "abab", one, one, one, one)
	c.set(backends{endpoints: []endpoint{a, b}, local: true})
	expect("on the client's node", "bbbb", one, one, one, one)
	c.set(backends{endpoints: []endpoint{a}, sources: []netip.Prefix{netip.MustParsePrefix("127.7.1.9/32")}})
	expect("only some clients are served", "nonea", one, two)
	c.set(backends{endpoints: []endpoint{a}, local: true})
	expect("none on the client's node", "none", one)
	c.set(backends{endpoints: []endpoint{a, b}, affinity: time.Minute})
	got := first(one)
	for range 5 {
		now = now.Add(time.Minute) // since the last connection
		expect("the same", got, one)
	}
	other := first(two)
	expect("the same for another client", other, two)
	c.set(backends{endpoints: []endpoint{{a.address, "c"}}, affinity: time.Minute})
	expect("its endpoint is gone", "c", one)
	c.set(backends{endpoints: []endpoint{a, b}, affinity: time.Minute})
	now = now.Add(time.Hour)
	first(two)
	if len(c.stuck) != 1 {
		t.Errorf("%d clients are remembered", len(c.stuck))
	}
}
