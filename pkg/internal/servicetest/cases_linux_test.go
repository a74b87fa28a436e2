package servicetest

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// cases have the names of Kubernetes' end-to-end tests (sig-network) whose behaviour they check.
var cases = map[string]func(*fixture){
	"should serve a basic endpoint from pods": func(f *fixture) {
		svc := f.service(nil, tcp(80))
		f.endpoints(svc, svc.Spec.Ports[0], 8001, 0)
		f.serve("tcp", 8001, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 80), 0)
	},
	"should serve multiport endpoints from pods": func(f *fixture) {
		svc := f.service(nil, named("a", tcp(8080)), named("b", tcp(8081)))
		f.endpoints(svc, svc.Spec.Ports[0], 8002, 0)
		f.endpoints(svc, svc.Spec.Ports[1], 8003, 1)
		f.serve("tcp", 8002, 0)
		f.serve("tcp", 8003, 1)
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8081), 1)
	},
	"should serve endpoints on same port and different protocols": func(f *fixture) {
		svc := f.service(nil, named("t", tcp(8080)), named("u", udp(8080)))
		f.endpoints(svc, svc.Spec.Ports[0], 8004, 0)
		f.endpoints(svc, svc.Spec.Ports[1], 8005, 1)
		f.serve("tcp", 8004, 0)
		f.serve("udp", 8005, 1)
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.untilServed(2, "udp", at(svc.Spec.ClusterIP, 8080), 1)
	},
	"should be updated after adding or deleting ports": func(f *fixture) {
		svc := f.service(nil, named("a", tcp(8080)))
		f.endpoints(svc, svc.Spec.Ports[0], 8006, 0)
		f.serve("tcp", 8006, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		added := named("b", tcp(8090))
		f.endpoints(svc, added, 8006, 0)
		f.update(svc, func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, added) })
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8090), 0)
		f.update(svc, func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] })
		f.untilRefused(1, "tcp", at(svc.Spec.ClusterIP, 8080))
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8090), 0)
	},
	"should preserve source pod IP for traffic thru service cluster IP": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8007, 0)
		f.serve("tcp", 8007, 0)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(1, "tcp", address, 0)
		if got := f.dial(1, "tcp", address); got.Client != f.clientIP(1).String() || got.Peer != address {
			f.Errorf("the server sees %s and the client %s, want %s and %s", got.Client, got.Peer, f.clientIP(1), address)
		}
	},
	"should allow pods to hairpin back to themselves through services": func(f *fixture) {
		if !f.inPods {
			f.Skip("the clients are outside pods")
		}
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8008, 1)
		f.serve("tcp", 8008, 1)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 1)
	},
	"should be able to up and down services": func(f *fixture) {
		var up [3]*corev1.Service
		f.serve("tcp", 8009, 0, 1)
		for i := range up[:2] {
			up[i] = f.service(nil, tcp(8080))
			f.endpoints(up[i], up[i].Spec.Ports[0], 8009, 0, 1)
			f.untilServed(2, "tcp", at(up[i].Spec.ClusterIP, 8080), 0, 1)
		}
		f.delete(up[0])
		f.untilRefused(2, "tcp", at(up[0].Spec.ClusterIP, 8080))
		up[2] = f.service(nil, tcp(8080))
		f.endpoints(up[2], up[2].Spec.Ports[0], 8009, 0, 1)
		for _, svc := range up[1:] {
			f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0, 1)
		}
	},
	"should work after the service has been recreated": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8010, 0)
		f.serve("tcp", 8010, 0)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(1, "tcp", address, 0)
		f.delete(svc)
		f.untilRefused(1, "tcp", address)
		again := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: svc.Spec.ClusterIP, Ports: []corev1.ServicePort{tcp(8080)}}}
		again.Name = svc.Name
		f.create(again)
		f.untilServed(1, "tcp", address, 0)
	},
	"should work after restarting kube-proxy": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8011, 0, 1)
		f.serve("tcp", 8011, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(2, "tcp", address, 0, 1)
		if f.routes {
			f.hold(2, address)
		}
		f.stop()
		if f.routes { // without the proxy, too
			f.untilServed(2, "tcp", address, 0, 1)
		}
		f.startProxy()
		f.untilServed(2, "tcp", address, 0, 1)
		if f.routes {
			if r := f.do(2, command{Op: "use", Address: address})[0]; r.Err != "" {
				f.Errorf("a connection has not outlived the proxy: %s", r.Err)
			}
		}
	},
	"should work while no daemon runs": func(f *fixture) {
		if !f.routes {
			f.Skip("the proxy is a part of the daemon")
		}
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8044, 0, 1)
		f.serve("tcp", 8044, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(2, "tcp", address, 0, 1)
		f.hold(2, address)
		f.stop()
		f.untilServed(2, "tcp", address, 0, 1) // the supervisor has the routes
		if err := f.host.Close(); err != nil {
			f.Fatal(err)
		}
		f.untilServed(2, "tcp", address, 0, 1)
		f.openHost()
		f.untilServed(2, "tcp", address, 0, 1) // before the proxy has sent its routes
		f.startProxy()
		f.endpoints(svc, svc.Spec.Ports[0], 8044, 1)
		f.untilServed(2, "tcp", address, 1)
		if r := f.do(2, command{Op: "use", Address: address})[0]; r.Err != "" {
			f.Errorf("a connection has not outlived the daemon: %s", r.Err)
		}
	},
	"should work after the supervisor was killed": func(f *fixture) {
		if !f.routes {
			f.Skip("the proxy does not depend on the supervisor")
		}
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8045, 0, 1)
		f.serve("tcp", 8045, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(2, "tcp", address, 0, 1)
		f.hold(2, address)
		f.stop() // without the routes pods are refused
		f.killSupervisor()
		f.untilServed(2, "tcp", address, 0, 1)
		if got := f.dial(2, "tcp", address); got.Peer != address {
			f.Errorf("the peer is %s, want %s", got.Peer, address)
		}
		if r := f.do(2, command{Op: "use", Address: address})[0]; r.Err != "" {
			f.Errorf("a connection has not outlived the supervisor: %s", r.Err)
		}
		f.startProxy()
	},
	"should be rejected when no endpoints exist": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8012)
		address := at(svc.Spec.ClusterIP, 8080)
		began := time.Now()
		if r := f.dial(1, "tcp", address); !r.Refused {
			f.Errorf("got %+v, want a refusal", r)
		}
		if took := time.Since(began); took > patience/2 {
			f.Errorf("refused after %s", took)
		}
	},
	"should be rejected for evicted pods (no endpoints exist)": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8013, 0)
		f.serve("tcp", 8013, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.endpoints(svc, svc.Spec.Ports[0], 8013)
		f.untilRefused(1, "tcp", at(svc.Spec.ClusterIP, 8080))
	},
	"should have session affinity work for service with type clusterIP": func(f *fixture) {
		svc := f.service(withAffinity(10800), tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8014, 0, 1, 2)
		f.serve("tcp", 8014, 0, 1, 2)
		address := at(svc.Spec.ClusterIP, 8080)
		f.until("an answer", func() bool { return f.dial(3, "tcp", address).Err == "" })
		if got := f.spread(3, 12, "tcp", address); len(got) != 1 {
			f.Errorf("the connections went to %v, want one pod", got)
		}
	},
	"should have session affinity timeout work for service with type clusterIP": func(f *fixture) {
		svc := f.service(withAffinity(1), tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8015, 0, 1)
		f.serve("tcp", 8015, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.until("an answer", func() bool { return f.dial(3, "tcp", address).Err == "" })
		first := f.dial(3, "tcp", address).Server
		f.until("another endpoint after a pause", func() bool {
			<-time.After(1100 * time.Millisecond) // each connection extends the affinity
			return f.dial(3, "tcp", address).Server != first
		})
	},
	"should be able to switch session affinity for service with type clusterIP": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8016, 0, 1)
		f.serve("tcp", 8016, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(3, "tcp", address, 0, 1)
		f.update(svc, func(s *corev1.Service) { withAffinity(10800)(&s.Spec) })
		f.until("affinity", func() bool { return len(f.spread(3, 8, "tcp", address)) == 1 })
		f.update(svc, func(s *corev1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		})
		f.untilServed(3, "tcp", address, 0, 1)
	},
	"should be able to create a functioning NodePort service": func(f *fixture) {
		svc := f.service(ofType(corev1.ServiceTypeNodePort), tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8017, 0)
		f.serve("tcp", 8017, 0)
		f.untilServed(1, "tcp", at(f.nodeIP(), svc.Spec.Ports[0].NodePort), 0)
	},
	"should have session affinity work for NodePort service": func(f *fixture) {
		svc := f.service(func(s *corev1.ServiceSpec) {
			withAffinity(10800)(s)
			s.Type = corev1.ServiceTypeNodePort
		}, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8018, 0, 1)
		f.serve("tcp", 8018, 0, 1)
		address := at(f.nodeIP(), svc.Spec.Ports[0].NodePort)
		f.until("an answer", func() bool { return f.dial(3, "tcp", address).Err == "" })
		if got := f.spread(3, 8, "tcp", address); len(got) != 1 {
			f.Errorf("the connections went to %v, want one pod", got)
		}
	},
	"should be able to update service type to NodePort listening on same port number but different protocols": func(f *fixture) {
		svc := f.service(nil, named("t", tcp(8080)))
		f.endpoints(svc, svc.Spec.Ports[0], 8019, 0)
		f.serve("tcp", 8019, 0)
		f.serve("udp", 8019, 0)
		number := int32(30119)
		svc = f.update(svc, func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeNodePort
			s.Spec.Ports = []corev1.ServicePort{named("t", tcp(8080)), named("u", udp(8080))}
			s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = number, number
		})
		f.endpoints(svc, svc.Spec.Ports[1], 8019, 0)
		f.untilServed(1, "tcp", at(f.nodeIP(), number), 0)
		f.untilServed(1, "udp", at(f.nodeIP(), number), 0)
	},
	"should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node": func(f *fixture) {
		if !f.routes {
			f.Skip("no process listens on addresses of other networks")
		}
		const external = "192.0.2.77" // nowhere
		svc := f.service(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{external} }, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8020, 0)
		f.serve("tcp", 8020, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0) // the supervisor gets all addresses of the Service at once
		f.untilServed(1, "tcp", at(external, 8080), 0)
	},
	"should serve addresses of a second ServiceCIDR, and refuse the others of it": func(f *fixture) {
		if !f.routes {
			f.Skip("no process listens on addresses of other networks")
		}
		f.addRange("classic", "192.0.2.128/26") // nowhere
		svc := f.service(func(s *corev1.ServiceSpec) { s.ClusterIP = "192.0.2.140" }, named("t", tcp(8080)), named("u", udp(8080)))
		f.endpoints(svc, svc.Spec.Ports[0], 8041, 0)
		f.endpoints(svc, svc.Spec.Ports[1], 8041, 0)
		f.serve("tcp", 8041, 0)
		f.serve("udp", 8041, 0)
		f.until("the routes", func() bool { return f.dial(1, "tcp", "192.0.2.140:8080").Server == podName(0) })
		f.untilServed(1, "udp", "192.0.2.140:8080", 0)
		if r := f.do(1, command{Op: "unconnected", Address: "192.0.2.140:8080"})[0]; r.Server != podName(0) || r.Client != f.ips[1] {
			f.Errorf("without a connection: got %+v, want an answer of %s to %s", r, podName(0), f.ips[1])
		}
		for _, address := range []string{"192.0.2.140:9090", "192.0.2.141:8080"} {
			if r := f.do(1, command{Op: "unconnected", Address: address})[0]; !r.Refused {
				f.Errorf("without a connection to %s: got %+v, want a refusal", address, r)
			}
		}
		for _, address := range []string{"192.0.2.140:9090", "192.0.2.141:8080"} {
			for _, network := range []string{"tcp", "udp"} {
				if r := f.dial(1, network, address); !r.Refused {
					f.Errorf("%s %s: got %+v, want a refusal", network, address, r)
				}
			}
		}
	},
	"should be able to change the type from ExternalName to ClusterIP": func(f *fixture) {
		svc := f.service(func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" })
		svc = f.update(svc, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName, s.Spec.Ports = corev1.ServiceTypeClusterIP, "", []corev1.ServicePort{tcp(8080)}
		})
		f.endpoints(svc, svc.Spec.Ports[0], 8021, 0)
		f.serve("tcp", 8021, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
	},
	"should be able to change the type from NodePort to ExternalName": func(f *fixture) {
		svc := f.service(ofType(corev1.ServiceTypeNodePort), tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8022, 0)
		f.serve("tcp", 8022, 0)
		inside, outside := at(svc.Spec.ClusterIP, 8080), at(f.nodeIP(), svc.Spec.Ports[0].NodePort)
		f.untilServed(1, "tcp", inside, 0)
		f.untilServed(1, "tcp", outside, 0)
		f.update(svc, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "example.com", "", nil
			s.Spec.Ports[0].NodePort = 0
		})
		f.untilRefused(1, "tcp", inside)
		f.untilRefused(1, "tcp", outside)
	},
	"should implement service.kubernetes.io/service-proxy-name": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8023, 0)
		f.serve("tcp", 8023, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.update(svc, func(s *corev1.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
		})
		f.untilRefused(1, "tcp", at(svc.Spec.ClusterIP, 8080))
	},
	"should implement service.kubernetes.io/headless": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8024, 0)
		f.serve("tcp", 8024, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.update(svc, func(s *corev1.Service) { s.Labels = map[string]string{corev1.IsHeadlessService: ""} })
		f.untilRefused(1, "tcp", at(svc.Spec.ClusterIP, 8080))
		f.update(svc, func(s *corev1.Service) { s.Labels = nil })
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
	},
	"should respect internalTrafficPolicy=Local Pod to Pod": func(f *fixture) {
		if !f.inPods {
			f.Skip("the clients are outside pods")
		}
		svc := f.service(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8025, 0, 1, 2) // pods 0 and 2 are on the first node
		f.serve("tcp", 8025, 0, 1, 2)
		f.untilServed(0, "tcp", at(svc.Spec.ClusterIP, 8080), 0, 2)
		f.untilServed(3, "tcp", at(svc.Spec.ClusterIP, 8080), 1)
		f.endpoints(svc, svc.Spec.Ports[0], 8025, 0, 2)
		f.until("no endpoint on the second node", func() bool { return f.dial(3, "tcp", at(svc.Spec.ClusterIP, 8080)).Err != "" })
	},
	"should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.conditions(svc, svc.Spec.Ports[0], 8026, discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}, 0)
		f.serve("tcp", 8026, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.conditions(svc, svc.Spec.Ports[0], 8026, discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)}, 0)
		f.untilRefused(1, "tcp", at(svc.Spec.ClusterIP, 8080))
	},
	"should be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is true": func(f *fixture) {
		svc := f.service(func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }, tcp(8080))
		f.conditions(svc, svc.Spec.Ports[0], 8027, discoveryv1.EndpointConditions{Ready: new(true), Serving: new(false), Terminating: new(true)}, 0)
		f.serve("tcp", 8027, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
	},
	"should support a Service with multiple ports specified in multiple EndpointSlices": func(f *fixture) {
		svc := f.service(nil, named("a", tcp(8080)), named("b", udp(8081)))
		f.endpoints(svc, svc.Spec.Ports[0], 8028, 0)
		f.endpoints(svc, svc.Spec.Ports[1], 8029, 1)
		f.serve("tcp", 8028, 0)
		f.serve("udp", 8029, 1)
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		f.untilServed(2, "udp", at(svc.Spec.ClusterIP, 8081), 1)
	},
	"should support a Service with multiple endpoint IPs specified in multiple EndpointSlices": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8030, 0)
		f.endpoints(svc, svc.Spec.Ports[0], 8031, 1)
		f.serve("tcp", 8030, 0)
		f.serve("tcp", 8031, 1)
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0, 1)
	},
	"should function for pod-Service: udp": func(f *fixture) {
		svc := f.service(nil, udp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8032, 0, 1)
		f.serve("udp", 8032, 0, 1)
		f.untilServed(2, "udp", at(svc.Spec.ClusterIP, 8080), 0, 1)
	},
	"should function for endpoint-Service: udp, without a connection": func(f *fixture) {
		svc := f.service(nil, udp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8033, 0)
		f.serve("udp", 8033, 0)
		address := at(svc.Spec.ClusterIP, 8080)
		f.untilServed(1, "udp", address, 0)
		if r := f.do(1, command{Op: "unconnected", Address: address})[0]; r.Server != podName(0) || r.Peer != address {
			f.Errorf("got %+v, want an answer of %s from %s", r, podName(0), address)
		}
	},
	"should serve on a UDP port below 1024, without a connection": func(f *fixture) {
		if !f.routes {
			f.Skip("such a port of an ordinary user's daemon has another number")
		}
		svc := f.service(nil, udp(443))
		f.endpoints(svc, svc.Spec.Ports[0], 8046, 0)
		f.serve("udp", 8046, 0)
		f.untilServed(1, "udp", at(svc.Spec.ClusterIP, 443), 0)
		f.until("an answer", func() bool {
			return f.do(1, command{Op: "unconnected", Address: at(svc.Spec.ClusterIP, 443)})[0].Server == podName(0)
		})
		if r := f.do(1, command{Op: "resolve", Address: at(svc.Spec.ClusterIP, 443)})[0]; r.Server != podName(0) {
			f.Errorf("as a resolver: got %+v", r)
		}
	},
	"should be able to preserve UDP traffic when server pod cycles for a ClusterIP service": func(f *fixture) {
		svc := f.service(nil, udp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8034, 0)
		f.serve("udp", 8034, 0, 1)
		f.untilServed(2, "udp", at(svc.Spec.ClusterIP, 8080), 0)
		f.endpoints(svc, svc.Spec.Ports[0], 8034, 1)
		f.untilServed(2, "udp", at(svc.Spec.ClusterIP, 8080), 1)
	},
	"should function for client IP based session affinity: udp": func(f *fixture) {
		svc := f.service(withAffinity(10800), udp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8035, 0, 1)
		f.serve("udp", 8035, 0, 1)
		address := at(svc.Spec.ClusterIP, 8080)
		f.until("an answer", func() bool { return f.dial(2, "udp", address).Err == "" })
		if got := f.spread(2, 8, "udp", address); len(got) != 1 {
			f.Errorf("the packets went to %v, want one pod", got)
		}
	},
	"should be able to handle large requests: http": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8036, 0)
		f.serve("tcp", 8036, 0)
		f.untilServed(1, "tcp", at(svc.Spec.ClusterIP, 8080), 0)
		if r := f.do(1, command{Op: "echo", Network: "tcp", Address: at(svc.Spec.ClusterIP, 8080), Size: 1 << 20})[0]; r.Err != "" {
			f.Error(r.Err)
		}
	},
	"should be able to handle large requests: udp": func(f *fixture) {
		svc := f.service(nil, udp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8037, 0)
		f.serve("udp", 8037, 0)
		f.untilServed(1, "udp", at(svc.Spec.ClusterIP, 8080), 0)
		if r := f.do(1, command{Op: "echo", Network: "udp", Address: at(svc.Spec.ClusterIP, 8080), Size: 2000})[0]; r.Err != "" {
			f.Error(r.Err)
		}
	},
	"should update endpoints: http": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.serve("tcp", 8038, 0, 1, 2)
		for _, pods := range [][]int{{0, 1, 2}, {1, 2}, {2}, {0, 2}} {
			f.endpoints(svc, svc.Spec.Ports[0], 8038, pods...)
			f.untilServed(3, "tcp", at(svc.Spec.ClusterIP, 8080), pods...)
		}
	},
	"should function for multiple endpoint-Services with same selector": func(f *fixture) {
		f.serve("tcp", 8039, 0, 1)
		for range 2 {
			svc := f.service(nil, tcp(8080))
			f.endpoints(svc, svc.Spec.Ports[0], 8039, 0, 1)
			f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 0, 1)
		}
	},
	"should only allow access from service loadbalancer source ranges": func(f *fixture) {
		balancer := f.hosts.LoadBalancers().Addr().Next().String()
		svc := f.service(func(s *corev1.ServiceSpec) {
			s.Type = corev1.ServiceTypeLoadBalancer
			s.LoadBalancerSourceRanges = []string{netip.PrefixFrom(f.clientIP(1), 32).String()}
		}, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8040, 0)
		f.serve("tcp", 8040, 0)
		f.setIngress(svc, balancer)
		f.untilServed(1, "tcp", at(balancer, 8080), 0)
		if r := f.dial(2, "tcp", at(balancer, 8080)); r.Err == "" {
			f.Errorf("another client is served by %s", r.Server)
		}
	},
	"should serve on a port below 1024 with endpoints below 1024": func(f *fixture) {
		if !f.inPods {
			f.Skip("clients outside pods reach such ports of an ordinary user's daemon at other numbers")
		}
		svc := f.service(nil, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(441)})
		f.endpoints(svc, svc.Spec.Ports[0], 441, 0)
		f.serve("tcp", 441, 0)
		address := at(svc.Spec.ClusterIP, 443)
		f.untilServed(1, "tcp", address, 0)
		if got := f.dial(1, "tcp", address); got.Peer != address && f.routes {
			f.Errorf("the peer is %s, want %s", got.Peer, address)
		}
	},
	"should pass over an endpoint that refuses": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8042, 0, 1)
		f.serve("tcp", 8042, 1) // and not in pod 0
		f.untilServed(2, "tcp", at(svc.Spec.ClusterIP, 8080), 1)
		if got := f.spread(2, 10, "tcp", at(svc.Spec.ClusterIP, 8080)); got[podName(1)] != 10 {
			f.Errorf("got %v", got)
		}
	},
	"should spread connections evenly": func(f *fixture) {
		svc := f.service(nil, tcp(8080))
		f.endpoints(svc, svc.Spec.Ports[0], 8043, 0, 1, 2)
		f.serve("tcp", 8043, 0, 1, 2)
		f.untilServed(3, "tcp", at(svc.Spec.ClusterIP, 8080), 0, 1, 2)
		const each = 20
		for server, n := range f.spread(3, 3*each, "tcp", at(svc.Spec.ClusterIP, 8080)) {
			if n < each*9/10 || n > each*11/10 {
				f.Errorf("%s has %d of %d connections", server, n, 3*each)
			}
		}
	},
}

func TestServices(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			f := newFixture(t, w)
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
					one := *f
					one.T = t
					cases[name](&one)
					f.names, f.stop, f.host = one.names, one.stop, one.host
				})
			}
		})
	}
}

func withAffinity(seconds int32) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func ofType(kind corev1.ServiceType) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Type = kind }
}

func (f *fixture) nodeIP() string { return f.hosts.Own(7).String() }

// TestServicesAsAnotherUser runs the suite as an ordinary user. Such a user's processes can't listen on ports below 1024.
func TestServicesAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "minikctl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const user = 12345
	program := filepath.Join(dir, "test")
	b, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.WriteFile(program, b, 0o755), os.Chown(dir, user, user))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestServices$/^(routes|proxy)$/(basic|below_1024|source_pod_IP|udp)")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
