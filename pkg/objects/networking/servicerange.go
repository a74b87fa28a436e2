package networking

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AddressManager is the value of the label ipaddress.kubernetes.io/managed-by of the IPAddresses of Services.
	AddressManager = "ipallocator.k8s.io"
	// RangeFinalizer protects a ServiceCIDR until no IPAddress depends on it.
	RangeFinalizer = "networking.k8s.io/service-cidr-finalizer"
	// DefaultRange is the name of the ServiceCIDR with the cluster's configured range.
	DefaultRange = "kubernetes"
)

// ServiceAddress returns the IPAddress of an address that a Service has.
func ServiceAddress(ip string, svc *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(addressFamily(ip)), networkingv1.LabelManagedBy: AddressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
	}
}

func addressFamily(ip string) corev1.IPFamily {
	if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// IsServiceAddress reports whether an IPAddress has the labels of the IPAddresses of Services.
func IsServiceAddress(a *networkingv1.IPAddress) bool {
	return ManagesAddress(a) && a.Labels[networkingv1.LabelIPAddressFamily] == string(addressFamily(a.Name))
}

// ManagesAddress reports whether the allocator of Services manages an IPAddress.
func ManagesAddress(a *networkingv1.IPAddress) bool {
	return a.Labels[networkingv1.LabelManagedBy] == AddressManager
}

// Prefixes returns the valid ranges of a ServiceCIDR.
func Prefixes(r *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range r.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// RangeHolds reports whether Services can have an address of a range: it is neither the network's own nor, for IPv4, its broadcast address.
func RangeHolds(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) && a != p.Masked().Addr() && (a.Is6() || a != LastAddress(p))
}

// LastAddress returns the highest address of a range, which is the broadcast address for IPv4.
func LastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(bytes) // never fails: the length is that of an address
	return a
}

// RangesWith returns the ServiceCIDRs in which Services can have an address.
func RangesWith(all []*networkingv1.ServiceCIDR, a netip.Addr) []*networkingv1.ServiceCIDR {
	var out []*networkingv1.ServiceCIDR
	for _, r := range all {
		for _, p := range Prefixes(r) {
			if RangeHolds(p, a) {
				out = append(out, r)
				break
			}
		}
	}
	return out
}

// RangeReady reports whether Services get addresses of a ServiceCIDR. One without a condition is ready, since its controller may not run.
func RangeReady(r *networkingv1.ServiceCIDR) bool {
	ready := meta.FindStatusCondition(r.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return r.DeletionTimestamp == nil && (ready == nil || ready.Status == metav1.ConditionTrue)
}
