package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/clock"
)

func service(name string, spec corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Spec: spec}
}

// fill puts Services with an address, without one, without endpoints and with an external name into the namespace shop.
func fill(s *clienttest.ListWatcher) {
	s.Put(client.Namespaces, watch.Added, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	http := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Port: 9, Protocol: corev1.ProtocolUDP}}
	s.Put(client.Services, watch.Added, service("web", corev1.ServiceSpec{ClusterIP: "127.7.200.1", ClusterIPs: []string{"127.7.200.1"}, Ports: http}))
	s.Put(client.Services, watch.Added, service("nodes", corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: http}))
	s.Put(client.Services, watch.Added, service("empty", corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: http}))
	s.Put(client.Services, watch.Added, service("alias", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}))
	s.Put(client.EndpointSlices, watch.Added, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "nodes-1", Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "nodes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"127.7.1.2"}},
			{Addresses: []string{"127.7.1.1"}, Hostname: new("nodes-0")},
			{Addresses: []string{"127.7.1.9"}, Hostname: new("nodes-9"), Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
		},
	})
}

func TestRecords(t *testing.T) {
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		r := records{
			zone: "cluster.local.", services: client.CacheOf[*corev1.Service](caches, client.Services),
			slices:     client.CacheOf[*discoveryv1.EndpointSlice](caches, client.EndpointSlices),
			namespaces: caches.Namespaces(), pods: caches.Pods(),
		}
		fill(s)
		for _, c := range []struct{ name, kind, want string }{
			{"web.shop.svc.cluster.local.", "A", "A 127.7.200.1"},
			{"web.shop.svc.cluster.local.", "AAAA", ""},
			{"web.shop.svc.cluster.local.", "MX", ""},
			{"web.other.svc.cluster.local.", "A", "NXDOMAIN"},
			{"a.web.shop.svc.cluster.local.", "A", "NXDOMAIN"},
			{"_http._tcp.web.shop.svc.cluster.local.", "SRV", "SRV 0 100 80 web.shop.svc.cluster.local. + A 127.7.200.1"},
			{"_http._udp.web.shop.svc.cluster.local.", "SRV", "NXDOMAIN"},
			{"_https._tcp.web.shop.svc.cluster.local.", "SRV", "NXDOMAIN"},
			{"_http._tcp.web.shop.svc.cluster.local.", "A", ""},
			{"_tcp.web.shop.svc.cluster.local.", "A", ""},
			{"nodes.shop.svc.cluster.local.", "A", "A 127.7.1.1, A 127.7.1.2"},
			{"nodes-0.nodes.shop.svc.cluster.local.", "A", "A 127.7.1.1"},
			{"127-7-1-2.nodes.shop.svc.cluster.local.", "A", "A 127.7.1.2"},
			{"nodes-9.nodes.shop.svc.cluster.local.", "A", "NXDOMAIN"},
			{"_http._tcp.nodes.shop.svc.cluster.local.", "SRV", "SRV 0 100 8080 nodes-0.nodes.shop.svc.cluster.local., " +
				"SRV 0 100 8080 127-7-1-2.nodes.shop.svc.cluster.local. + A 127.7.1.1, A 127.7.1.2"},
			{"empty.shop.svc.cluster.local.", "A", ""},
			{"alias.shop.svc.cluster.local.", "A", "CNAME example.com."},
			{"x.alias.shop.svc.cluster.local.", "A", "NXDOMAIN"},
			{"1-2-3-4.shop.pod.cluster.local.", "A", "A 1.2.3.4"},
			{"1-2-3-4.other.pod.cluster.local.", "A", "NXDOMAIN"},
			{"web.shop.pod.cluster.local.", "A", "NXDOMAIN"},
			{"shop.svc.cluster.local.", "A", ""},
			{"other.svc.cluster.local.", "A", "NXDOMAIN"},
			{"svc.cluster.local.", "A", ""},
			{"cluster.local.", "A", ""},
			{"nothing.cluster.local.", "A", "NXDOMAIN"},
			{"dns-version.cluster.local.", "TXT", `TXT "1.1.0"`},
			{"1.200.7.127.in-addr.arpa.", "PTR", "PTR web.shop.svc.cluster.local."},
			{"1.1.7.127.in-addr.arpa.", "PTR", "PTR nodes-0.nodes.shop.svc.cluster.local."},
			{"1.200.7.127.in-addr.arpa.", "A", ""},
			{"8.8.8.8.in-addr.arpa.", "PTR", "elsewhere"},
		} {
			a, ours := r.lookUp(c.name, dns.StringToType[c.kind])
			if got := text(a, ours); got != c.want {
				t.Errorf("%s %s: got %q, want %q", c.kind, c.name, got, c.want)
			}
		}
	})
}

// TestSearch completes the names that pods without a resolv.conf of their own ask for.
func TestSearch(t *testing.T) {
	clienttest.WithCaches(t, func(s *clienttest.ListWatcher, caches *client.Caches) {
		r := records{
			zone: "cluster.local.", services: client.CacheOf[*corev1.Service](caches, client.Services),
			slices:     client.CacheOf[*discoveryv1.EndpointSlice](caches, client.EndpointSlices),
			namespaces: caches.Namespaces(), pods: caches.Pods(),
		}
		fill(s)
		for ip, ns := range map[string]string{"127.7.1.1": "shop", "127.7.1.5": "other"} {
			s.Put(client.Pods, watch.Added, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns}, Status: corev1.PodStatus{PodIP: ip}})
		}
		s.Put(client.Pods, watch.Added, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: "shop"}, Spec: corev1.PodSpec{HostNetwork: true}, Status: corev1.PodStatus{PodIP: "127.0.0.1"},
		})
		for _, c := range []struct{ from, name, want string }{
			{"127.7.1.1", "web.", "A 127.7.200.1"},
			{"127.7.1.1", "web.shop.", "A 127.7.200.1"},
			{"127.7.1.1", "web.shop.svc.", "A 127.7.200.1"},
			{"127.7.1.1", "nodes-0.nodes.", "A 127.7.1.1"},
			{"127.7.1.1", "absent.", "elsewhere"},
			{"127.7.1.1", "example.com.", "elsewhere"},
			{"127.7.1.1", ".", "elsewhere"},
			{"127.7.1.5", "web.", "elsewhere"},
			{"127.7.1.5", "web.shop.", "A 127.7.200.1"},
			{"127.0.0.1", "web.", "elsewhere"},
		} {
			a, ours := r.search(netip.MustParseAddr(c.from), c.name, dns.TypeA)
			if got := text(a, ours); got != c.want {
				t.Errorf("%s asks for %s: got %q, want %q", c.from, c.name, got, c.want)
			}
			if len(a.records) > 0 && a.records[0].Header().Name != c.name {
				t.Errorf("%s: the record is of %s", c.name, a.records[0].Header().Name)
			}
		}
	})
}

// text is the records of an answer without names and times.
func text(a answer, ours bool) string {
	switch {
	case !ours:
		return "elsewhere"
	case !a.exists:
		return "NXDOMAIN"
	}
	short := func(list []dns.RR) string {
		var out []string
		for _, rr := range list {
			out = append(out, strings.ReplaceAll(strings.TrimPrefix(rr.String(), rr.Header().Name+"\t5\tIN\t"), "\t", " "))
		}
		return strings.Join(out, ", ")
	}
	if len(a.extra) > 0 {
		return short(a.records) + " + " + short(a.extra)
	}
	return short(a.records)
}

// TestServer asks over UDP and TCP, for names of the cluster and for others, which a resolver answers.
func TestServer(t *testing.T) {
	resolver := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		reply := new(dns.Msg).SetReply(req)
		reply.Answer = []dns.RR{&dns.A{Hdr: header(req.Question[0].Name, dns.TypeA), A: netip.MustParseAddr("192.0.2.7").AsSlice()}}
		_ = w.WriteMsg(reply)
	})}
	started := make(chan struct{})
	resolver.NotifyStartedFunc = func() { close(started) }
	go func() { _ = resolver.ListenAndServe() }()
	<-started
	defer func() { _ = resolver.Shutdown() }()
	at := netip.MustParseAddrPort(resolver.PacketConn.LocalAddr().String())

	source := clienttest.NewListWatcher()
	caches := client.NewCaches(source, clock.Real())
	s, err := New(Config{Caches: caches, Domain: "Cluster.Local", Listen: netip.MustParseAddrPort("127.0.0.1:0"), Resolvers: []netip.AddrPort{at}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- caches.Run(ctx) }()
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()
	for _, c := range []struct {
		network, name string
		code          int
		want          string
	}{
		{"udp", "Dns-Version.cluster.LOCAL.", dns.RcodeSuccess, "Dns-Version.cluster.LOCAL."},
		{"tcp", "dns-version.cluster.local.", dns.RcodeSuccess, "dns-version.cluster.local."},
		{"udp", "web.shop.svc.cluster.local.", dns.RcodeNameError, ""},
		{"udp", "example.com.", dns.RcodeSuccess, "example.com."},
		{"tcp", "example.com.", dns.RcodeServerFailure, ""}, // that resolver has no TCP
	} {
		server := s.udp.LocalAddr().String()
		if c.network == "tcp" {
			server = s.tcp.Addr().String()
		}
		reply, _, err := (&dns.Client{Net: c.network}).Exchange(new(dns.Msg).SetQuestion(c.name, dns.TypeTXT), server)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, rr := range reply.Answer {
			names = append(names, rr.Header().Name)
		}
		if reply.Rcode != c.code || strings.Join(names, " ") != c.want {
			t.Errorf("%s %s: got %s", c.network, c.name, reply)
		}
		if authority := slices.ContainsFunc(reply.Ns, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeSOA }); c.code == dns.RcodeNameError && !authority {
			t.Errorf("%s: no SOA record, so that resolvers may keep the answer for as long as they like", c.name)
		}
	}
}

// TestAliases follows ExternalName Services to other Services of the cluster.
func TestAliases(t *testing.T) {
	clienttest.WithCaches(t, func(source *clienttest.ListWatcher, caches *client.Caches) {
		s, err := New(Config{Caches: caches, Domain: "cluster.local", Listen: netip.MustParseAddrPort("127.0.0.1:0")})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = s.udp.Close(), s.tcp.Close() }()
		fill(source)
		for name, target := range map[string]string{
			"first": "second.shop.svc.cluster.local", "second": "Web.shop.svc.cluster.local", "pods": "nodes.shop.svc.cluster.local",
			"lost": "absent.shop.svc.cluster.local", "circle": "circle.shop.svc.cluster.local",
		} {
			source.Put(client.Services, watch.Added, service(name, corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: target}))
		}
		for _, c := range []struct{ name, kind, want string }{
			{"second", "A", "CNAME Web.shop.svc.cluster.local., A 127.7.200.1"},
			{"second", "AAAA", "CNAME Web.shop.svc.cluster.local."},
			{"second", "CNAME", "CNAME Web.shop.svc.cluster.local."},
			{"first", "A", "CNAME second.shop.svc.cluster.local., CNAME Web.shop.svc.cluster.local., A 127.7.200.1"},
			{"pods", "A", "CNAME nodes.shop.svc.cluster.local., A 127.7.1.1, A 127.7.1.2"},
			{"lost", "A", "CNAME absent.shop.svc.cluster.local."},
			{"circle", "A", "CNAME circle.shop.svc.cluster.local." + strings.Repeat(", CNAME circle.shop.svc.cluster.local.", maxAliases)},
		} {
			req := new(dns.Msg).SetQuestion(c.name+".shop.svc.cluster.local.", dns.StringToType[c.kind])
			reply := s.answer(req, new(dns.Msg).SetReply(req), netip.MustParseAddr("127.0.0.1"), false)
			if got := text(answer{exists: reply.Rcode == dns.RcodeSuccess, records: reply.Answer}, true); got != c.want {
				t.Errorf("%s %s: got %q, want %q", c.kind, c.name, got, c.want)
			}
		}
	})
}
