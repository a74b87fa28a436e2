package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

// The actions of the Events about repairs.
const (
	allocationAction = "ClusterIPAllocation"
	addressAction    = "IPAddressAllocation"
)

const (
	// orphanGrace is how long an IPAddress may wait for its Service, which is created after it.
	orphanGrace = time.Minute
	// revertGrace is how long the IPAddress of a write that is being reverted may stay.
	revertGrace = 5 * time.Second
)

// repair is one correction. Its Event is of type Warning; one without a reason has none.
type repair struct {
	about                objects.Object
	reason, action, note string

	remove *networkingv1.IPAddress // nil: nothing is deleted
	create *networkingv1.IPAddress // after the deletion; nil: nothing is created
}

// allocated is what the repairs are decided on.
type allocated struct {
	ranges    []*networkingv1.ServiceCIDR
	services  map[objects.Key]*corev1.Service
	addresses map[string]*networkingv1.IPAddress
}

// repairService returns the repairs of the IPAddresses of a Service.
func (s allocated) repairService(svc *corev1.Service) []repair {
	var out []repair
	for _, ip := range addressesOf(svc) {
		if r := s.repairClusterIP(svc, ip); r != (repair{}) {
			out = append(out, r)
		}
	}
	return out
}

func (s allocated) repairClusterIP(svc *corev1.Service, ip netip.Addr) repair {
	want := networking.ServiceAddress(ip.String(), svc)
	family := want.Labels[networkingv1.LabelIPAddressFamily]
	warn := func(reason, format string, args ...any) repair {
		return repair{about: svc, reason: reason, action: allocationAction, note: fmt.Sprintf(format, args...)}
	}
	if len(networking.RangesWith(s.ranges, ip)) == 0 {
		return warn("ClusterIPOutOfRange", "Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip)
	}
	have := s.addresses[ip.String()]
	if have == nil {
		r := warn("ClusterIPNotAllocated", "Cluster IP [%v]: %s is not allocated; repairing", family, ip)
		r.create = want
		return r
	}
	other := s.parent(have)
	switch ref := have.Spec.ParentRef; {
	case ref == nil || ref.Group != "" || ref.Resource != "services" || other == nil:
		r := warn("ClusterIPNotAllocated", "the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, ip, svc.Namespace, svc.Name)
		r.remove, r.create = have, want
		return r
	case !networking.IsServiceAddress(have):
		return repair{about: svc, remove: have, create: want}
	case *ref != *want.Spec.ParentRef && slices.Contains(other.Spec.ClusterIPs, have.Name):
		return warn("ClusterIPAlreadyAllocated", "Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip)
	}
	return repair{}
}

// parent returns the Service that an IPAddress refers to; nil: none.
func (s allocated) parent(a *networkingv1.IPAddress) *corev1.Service {
	ref := a.Spec.ParentRef
	if ref == nil {
		return nil
	}
	return s.services[objects.Key{Namespace: ref.Namespace, Name: ref.Name}]
}

// repairAddress returns the repair of an IPAddress that no Service has, or after what time it is due. Those of other managers stay.
func (s allocated) repairAddress(a *networkingv1.IPAddress, now time.Time) (repair, time.Duration) {
	if !networking.ManagesAddress(a) {
		return repair{}, 0
	}
	remove := func(reason, format string, args ...any) repair {
		return repair{about: a, reason: reason, action: addressAction, note: fmt.Sprintf(format, args...), remove: a}
	}
	ref := a.Spec.ParentRef
	if ref == nil || ref.Group != "" || ref.Resource != "services" {
		return remove("IPAddressNotAllocated", "IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", a.Name, ref), 0
	}
	age := now.Sub(a.CreationTimestamp.Time)
	svc := s.parent(a)
	switch {
	case svc == nil && age > orphanGrace:
		return remove("IPAddressNotAllocated", "IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", a.Name, ref.Namespace, ref.Name), 0
	case svc == nil:
		return repair{}, max(orphanGrace-age, 0) + time.Nanosecond
	case slices.Contains(svc.Spec.ClusterIPs, a.Name):
		return repair{}, 0
	case svc.Spec.Type == corev1.ServiceTypeExternalName && age < orphanGrace:
		return repair{}, orphanGrace - age
	case a.CreationTimestamp.After(svc.CreationTimestamp.Time) && age < revertGrace:
		return repair{}, revertGrace
	}
	return remove("IPAddressWrongReference", "IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", a.Name, svc.Namespace, svc.Name), 0
}
