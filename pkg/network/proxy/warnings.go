package proxy

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Warnings returns what a Proxy does not serve of a Service. Headless Services and those with an external name need none.
func Warnings(spec *corev1.ServiceSpec) []string {
	if spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	var out []string
	for _, ip := range append([]string{spec.ClusterIP}, spec.ExternalIPs...) {
		if a, err := netip.ParseAddr(ip); err == nil && !a.IsLoopback() {
			out = append(out, fmt.Sprintf("only pods reach this Service at %s, which is no loopback address: what other programs send there leaves this machine", ip))
		}
	}
	for i := range spec.Ports {
		if p := spec.Ports[i].Protocol; p != "" && !served(p) {
			out = append(out, fmt.Sprintf("spec.ports[%d].protocol: nothing in this cluster serves %s: the port is stored, and that is all", i, p))
		}
	}
	return out
}

// served reports whether a Proxy listens on ports of a protocol.
func served(p corev1.Protocol) bool { return p == corev1.ProtocolTCP || p == corev1.ProtocolUDP }
