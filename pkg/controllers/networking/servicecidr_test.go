package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/networking"
)

func TestDeletable(t *testing.T) {
	named := func(name string, cidrs ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	address := func(ip string) *networkingv1.IPAddress { return networking.ServiceAddress(ip, &corev1.Service{}) }
	foreign := address("10.0.0.5")
	foreign.Labels = nil
	for _, tt := range []struct {
		name      string
		others    []*networkingv1.ServiceCIDR
		addresses []*networkingv1.IPAddress
		want      bool
	}{
		{"no addresses", nil, nil, true},
		{"an address in it", nil, []*networkingv1.IPAddress{address("10.0.0.5")}, false},
		{"an address elsewhere", nil, []*networkingv1.IPAddress{address("10.0.1.5")}, true},
		{"an address of another manager", nil, []*networkingv1.IPAddress{foreign}, true},
		{"the same range again", []*networkingv1.ServiceCIDR{named("b", "10.0.0.0/24")}, []*networkingv1.IPAddress{address("10.0.0.5")}, true},
		{"a larger range", []*networkingv1.ServiceCIDR{named("b", "10.0.0.0/16")}, []*networkingv1.IPAddress{address("10.0.0.5")}, true},
		{"a smaller range with the address", []*networkingv1.ServiceCIDR{named("b", "10.0.0.0/28")}, []*networkingv1.IPAddress{address("10.0.0.5")}, true},
		{"a smaller range without it", []*networkingv1.ServiceCIDR{named("b", "10.0.0.0/28")}, []*networkingv1.IPAddress{address("10.0.0.50")}, false},
		{"the broadcast address of a smaller range", []*networkingv1.ServiceCIDR{named("b", "10.0.0.0/28")}, []*networkingv1.IPAddress{address("10.0.0.15")}, false},
	} {
		c := named("a", "10.0.0.0/24")
		if got := deletable(c, append(tt.others, c), tt.addresses); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	dual := named("a", "10.0.0.0/24", "fd00::/112")
	all := []*networkingv1.ServiceCIDR{dual, named("b", "10.0.0.0/16")}
	if deletable(dual, all, []*networkingv1.IPAddress{address("fd00::5")}) {
		t.Error("an address of the second family is left without a range")
	}
}
