package bootstrap

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

var repairTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func repairedService(name string, ips ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(repairTime.Add(-time.Hour))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips},
	}
}

func repairedAddress(ip, service string, change func(*networkingv1.IPAddress)) *networkingv1.IPAddress {
	a := networking.ServiceAddress(ip, repairedService(service))
	a.CreationTimestamp = metav1.NewTime(repairTime.Add(-2 * time.Hour))
	if change != nil {
		change(a)
	}
	return a
}

func repairState(services []*corev1.Service, addresses ...*networkingv1.IPAddress) allocated {
	s := allocated{
		ranges:   []*networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}}}},
		services: map[objects.Key]*corev1.Service{}, addresses: map[string]*networkingv1.IPAddress{},
	}
	for _, svc := range services {
		s.services[objects.Key{Namespace: svc.Namespace, Name: svc.Name}] = svc
	}
	for _, a := range addresses {
		s.addresses[a.Name] = a
	}
	return s
}

func TestRepairService(t *testing.T) {
	gateway := func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Group, a.Spec.ParentRef.Resource = "gw", "gateways" }
	for _, tt := range []struct {
		name           string
		ips            []string
		address        *networkingv1.IPAddress
		others         []*corev1.Service
		reason, note   string
		remove, create bool
	}{
		{"right", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "a", nil), nil, "", "", false, false},
		{"headless", []string{"None"}, nil, nil, "", "", false, false},
		{
			"out of range", []string{"10.96.0.5"}, nil, nil, "ClusterIPOutOfRange",
			"Cluster IP [IPv4]: 10.96.0.5 is not within any configured Service CIDR; please recreate service", false, false,
		},
		{"missing", []string{"10.0.0.5"}, nil, nil, "ClusterIPNotAllocated", "Cluster IP [IPv4]: 10.0.0.5 is not allocated; repairing", false, true},
		{
			"of a gateway", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "a", gateway), nil, "ClusterIPNotAllocated",
			"the ClusterIP [IPv4]: 10.0.0.5 for Service ns/a has a wrong reference; repairing", true, true,
		},
		{
			"of a Service that is gone", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "b", nil), nil, "ClusterIPNotAllocated",
			"the ClusterIP [IPv4]: 10.0.0.5 for Service ns/a has a wrong reference; repairing", true, true,
		},
		{
			"of two Services", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "b", nil), []*corev1.Service{repairedService("b", "10.0.0.5")},
			"ClusterIPAlreadyAllocated", "Cluster IP [IPv4]:10.0.0.5 was assigned to multiple services; please recreate service", false, false,
		},
		{"of a Service with another address", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "b", nil), []*corev1.Service{repairedService("b", "10.0.0.6")}, "", "", false, false},
		{"without labels", []string{"10.0.0.5"}, repairedAddress("10.0.0.5", "a", func(a *networkingv1.IPAddress) { a.Labels = nil }), nil, "", "", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := repairedService("a", tt.ips...)
			s := repairState(append(tt.others, svc))
			if tt.address != nil {
				s.addresses[tt.address.Name] = tt.address
			}
			var got repair
			if all := s.repairService(svc); len(all) > 0 {
				got = all[0]
			}
			if got.reason != tt.reason || got.note != tt.note || (got.remove != nil) != tt.remove || (got.create != nil) != tt.create {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRepairAddress(t *testing.T) {
	aged := func(age time.Duration) func(*networkingv1.IPAddress) {
		return func(a *networkingv1.IPAddress) { a.CreationTimestamp = metav1.NewTime(repairTime.Add(-age)) }
	}
	external := repairedService("a")
	external.Spec.Type = corev1.ServiceTypeExternalName
	for _, tt := range []struct {
		name     string
		address  *networkingv1.IPAddress
		services []*corev1.Service
		reason   string
		wait     time.Duration
	}{
		{"right", repairedAddress("10.0.0.5", "a", nil), []*corev1.Service{repairedService("a", "10.0.0.5")}, "", 0},
		{"of a client", repairedAddress("10.0.0.5", "a", func(a *networkingv1.IPAddress) { a.Labels = nil }), nil, "", 0},
		{"leaked", repairedAddress("10.0.0.5", "a", aged(61*time.Second)), nil, "IPAddressNotAllocated", 0},
		{"of a Service that is being created", repairedAddress("10.0.0.5", "a", aged(20*time.Second)), nil, "", 40*time.Second + 1},
		{"no Service", repairedAddress("10.0.0.5", "a", func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = "pods" }), nil, "IPAddressNotAllocated", 0},
		{"of a Service that gets an address", repairedAddress("10.0.0.5", "a", aged(20*time.Second)), []*corev1.Service{external}, "", 40 * time.Second},
		{"of a write that is reverted", repairedAddress("10.0.0.5", "a", aged(time.Second)), []*corev1.Service{repairedService("a", "10.0.0.6")}, "", 5 * time.Second},
		{"of another Service", repairedAddress("10.0.0.5", "a", aged(6*time.Second)), []*corev1.Service{repairedService("a", "10.0.0.6")}, "IPAddressWrongReference", 0},
	} {
		got, wait := repairState(tt.services, tt.address).repairAddress(tt.address, repairTime)
		if got.reason != tt.reason || wait != tt.wait || (got.remove != nil) != (tt.reason != "") {
			t.Errorf("%s: got %+v after %v", tt.name, got, wait)
		}
	}
}
