package proxy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWarnings(t *testing.T) {
	ports := []corev1.ServicePort{{Port: 80}, {Port: 53, Protocol: corev1.ProtocolUDP}, {Port: 36412, Protocol: corev1.ProtocolSCTP}}
	const sctp = "spec.ports[2].protocol: nothing in this cluster serves SCTP: the port is stored, and that is all"
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		want []string
	}{
		"SCTP":        {corev1.ServiceSpec{Ports: ports}, []string{sctp}},
		"TCP and UDP": {corev1.ServiceSpec{Ports: ports[:2]}, nil},
		"an address off loopback": {
			corev1.ServiceSpec{Ports: ports[:2], ClusterIP: "203.0.113.10", ExternalIPs: []string{"127.0.0.9"}},
			[]string{"only pods reach this Service at 203.0.113.10, which is no loopback address: what other programs send there leaves this machine"},
		},
		"headless":         {corev1.ServiceSpec{Ports: ports, ClusterIP: corev1.ClusterIPNone}, nil},
		"an external name": {corev1.ServiceSpec{Ports: ports, Type: corev1.ServiceTypeExternalName}, nil},
	} {
		if got := Warnings(&c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
