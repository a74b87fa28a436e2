package cli

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWaysIn(t *testing.T) {
	service := func(change func(*corev1.Service), ports ...corev1.ServicePort) *corev1.Service {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: []string{"127.3.128.9"}, Ports: ports},
		}
		if change != nil {
			change(svc)
		}
		return svc
	}
	tcp := func(port, nodePort int32) corev1.ServicePort {
		return corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: port, NodePort: nodePort}
	}
	for name, tt := range map[string]struct {
		svc    *corev1.Service
		served []string
		want   wayIn
	}{
		"the cluster address": {service(nil, tcp(8080, 0)), []string{"127.3.128.9:8080"}, wayIn{"8080/TCP", "http", "127.3.128.9:8080", "", ""}},
		"a port below 1024 of an ordinary user's daemon": {
			service(nil, tcp(443, 0)), []string{"127.3.128.9:64955"}, wayIn{"443/TCP", "https", "127.3.128.9:64955", "", ""},
		},
		"a node port": {
			service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.9"} }, tcp(80, 30080)),
			[]string{"127.0.0.1:30080"}, wayIn{"80/TCP", "http", "127.0.0.1:30080", "", ""},
		},
		"a load balancer": {
			service(func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "127.3.127.1"}}
			}, tcp(8080, 30080)),
			[]string{"127.3.127.1:8080", "127.3.128.9:8080", "127.0.0.1:30080"}, wayIn{"8080/TCP", "http", "127.3.127.1:8080", "", "127.0.0.1:30080"},
		},
		"a node port that is not served": {
			service(nil, tcp(8080, 30080)), []string{"127.3.128.9:8080"}, wayIn{"8080/TCP", "http", "127.3.128.9:8080", "", ""},
		},
		"a node port of UDP": {
			service(nil, corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 8080, NodePort: 30080}), nil,
			wayIn{"8080/UDP", "", "127.3.128.9:8080", "", "127.0.0.1:30080"},
		},
		"headless, UDP": {
			service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{corev1.ClusterIPNone} },
				corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 53}), nil,
			wayIn{"53/UDP", "", "", "only pods reach it", ""},
		},
		"no endpoints": {service(nil, tcp(80, 30080)), nil, wayIn{"80/TCP", "", "", "no pod is ready", ""}},
		"an address of another network": {
			service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.9"} }, tcp(80, 0)), nil,
			wayIn{"80/TCP", "", "", "minikctl port-forward -n default service/web 80", ""},
		},
		"headless": {
			service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{corev1.ClusterIPNone} }, tcp(80, 0)), nil,
			wayIn{"80/TCP", "", "", "minikctl port-forward -n default service/web 80", ""},
		},
		"an external name": {
			service(func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
			}), nil,
			wayIn{"<none>", "", "", "example.com", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := waysIn(t.Context(), tt.svc, func(_ context.Context, address string) bool { return slices.Contains(tt.served, address) })
			if len(got) != 1 || got[0] != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
