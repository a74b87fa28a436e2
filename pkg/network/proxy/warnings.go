package proxy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Warnings returns what a Proxy does not serve of a Service. Headless Services and those with an external name need none.
func Warnings(spec *corev1.ServiceSpec) []string {
	if spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	var out []string
	for i := range spec.Ports {
		if p := spec.Ports[i].Protocol; p != "" && !served(p) {
			out = append(out, fmt.Sprintf("spec.ports[%d].protocol: nothing in this cluster serves %s: the port is stored, and that is all", i, p))
		}
	}
	return out
}

// served reports whether a Proxy listens on ports of a protocol.
func served(p corev1.Protocol) bool { return p == corev1.ProtocolTCP || p == corev1.ProtocolUDP }
