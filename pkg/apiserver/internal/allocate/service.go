package allocate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/core"
)

// needsAddress reports whether a Service has a type with a cluster address. It may still be headless.
func needsAddress(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

func headless(s *corev1.Service) bool {
	return s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func addressed(s *corev1.Service) bool { return needsAddress(s) && !headless(s) }

func needsPorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func needsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// families sets ipFamilyPolicy and ipFamilies. The cluster has IPv4 addresses only.
func (a *allocation) families() error {
	spec := &a.svc.Spec
	if !needsAddress(a.svc) || a.prefersAsBefore() {
		return nil
	}
	headlessWithoutSelector := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case a.old != nil && a.old.Spec.IPFamilyPolicy != nil:
			policy = *a.old.Spec.IPFamilyPolicy
		case headlessWithoutSelector:
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	var known []string
	if a.old != nil {
		known = a.old.Spec.ClusterIPs
	}
	if errs := core.ClusterAddresses(spec, known); len(errs) > 0 {
		return a.invalid(errs...)
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	errs := a.shrink(single)
	if errs = append(errs, a.checkFamilies(single)...); len(errs) > 0 {
		return a.invalid(errs...)
	}
	if len(spec.IPFamilies) == 0 && headlessWithoutSelector {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if headlessWithoutSelector {
		if len(spec.IPFamilies) < 2 && !single {
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	if errs := a.checkConfigured(); len(errs) > 0 {
		return a.invalid(errs...)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return nil
}

// prefersAsBefore reports whether an update keeps the addresses and families of a Service with the policy
// PreferDualStack. They are then not changed.
func (a *allocation) prefersAsBefore() bool {
	if a.old == nil {
		return false
	}
	spec, old := &a.svc.Spec, &a.old.Spec
	prefers := func(p *corev1.IPFamilyPolicy) bool { return p != nil && *p == corev1.IPFamilyPolicyPreferDualStack }
	known := spec.Type == corev1.ServiceTypeClusterIP || needsPorts(a.svc)
	return known && spec.Type == old.Type && prefers(spec.IPFamilyPolicy) && (old.IPFamilyPolicy == nil || prefers(old.IPFamilyPolicy)) &&
		slices.Equal(spec.ClusterIPs, old.ClusterIPs) && slices.Equal(spec.IPFamilies, old.IPFamilies)
}

// shrink handles an update from two families to one. With single, it removes the second entries that are unchanged from
// the old Service. A client that removes them itself must also set the policy SingleStack.
func (a *allocation) shrink(single bool) field.ErrorList {
	if a.old == nil {
		return nil
	}
	spec, old := &a.svc.Spec, &a.old.Spec
	if single {
		if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, old.ClusterIPs) {
			spec.ClusterIPs = spec.ClusterIPs[:1:1]
		}
		if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, old.IPFamilies) {
			spec.IPFamilies = spec.IPFamilies[:1:1]
		}
		return nil
	}
	var errs field.ErrorList
	at := field.NewPath("spec", "ipFamilyPolicy")
	if n := len(spec.ClusterIPs); n > 0 && n < len(old.ClusterIPs) {
		errs = append(errs, field.Invalid(at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
	}
	if n := len(spec.IPFamilies); n > 0 && n < len(old.IPFamilies) {
		errs = append(errs, field.Invalid(at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

func (a *allocation) checkFamilies(single bool) field.ErrorList {
	spec, path := &a.svc.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if single && len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if single && len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone || i < len(spec.IPFamilies) {
			continue
		}
		switch family := familyOf(ip); family {
		case corev1.IPv4Protocol:
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), family)
		case corev1.IPv6Protocol:
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
		}
	}
	return errs
}

// checkConfigured refuses families that the cluster does not support.
func (a *allocation) checkConfigured() field.ErrorList {
	spec, path := &a.svc.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy,
			"this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if family != corev1.IPv4Protocol {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	return errs
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// familyOf returns the family of an address; "" if it is invalid.
func familyOf(ip string) corev1.IPFamily {
	addr, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return ""
	case addr.Is4():
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// nodePorts allocates the node ports of a Service. Ports with the same number and different protocols share one.
func (a *allocation) nodePorts() error {
	if !needsPorts(a.svc) {
		return nil
	}
	if a.old != nil {
		return a.newNodePorts()
	}
	ports := a.svc.Spec.Ports
	shared := map[int32]int32{}
	for i := range ports {
		p := &ports[i]
		if p.NodePort == 0 && !core.GivesNodePorts(&a.svc.Spec) {
			continue
		}
		switch has := shared[p.Port]; {
		case has == 0:
			if p.NodePort == 0 {
				p.NodePort = requested(ports, p.Port)
			}
			if err := a.nodePort(i); err != nil {
				return err
			}
			shared[p.Port] = p.NodePort
		case p.NodePort == 0:
			p.NodePort = has
		case p.NodePort != has:
			if err := a.nodePort(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// requested returns the node port that the client has set for one of the ports with a number; 0: none.
func requested(ports []corev1.ServicePort, number int32) int32 {
	for i := range ports {
		if ports[i].Port == number && ports[i].NodePort != 0 {
			return ports[i].NodePort
		}
	}
	return 0
}

// newNodePorts allocates the node ports that an updated Service does not have yet.
func (a *allocation) newNodePorts() error {
	ports := a.svc.Spec.Ports
	known := map[int32]bool{}
	for i := range a.old.Spec.Ports {
		known[a.old.Spec.Ports[i].NodePort] = true
	}
	type port struct {
		protocol corev1.Protocol
		number   int32
	}
	seen := map[port]bool{}
	for i := range ports {
		p := &ports[i]
		if p.NodePort == 0 && !core.GivesNodePorts(&a.svc.Spec) {
			continue
		}
		if p.NodePort == 0 || !known[p.NodePort] {
			if err := a.nodePort(i); err != nil {
				return err
			}
			known[p.NodePort] = true
		}
		at := port{p.Protocol, p.NodePort}
		if seen[at] {
			return fmt.Errorf("duplicate nodePort: %v", at)
		}
		seen[at] = true
	}
	return nil
}

// nodePort allocates the requested node port of a port, or any.
func (a *allocation) nodePort(i int) error {
	p := &a.svc.Spec.Ports[i]
	if p.NodePort != 0 {
		if err := a.takePort(int(p.NodePort)); err != nil {
			return a.invalid(field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), p.NodePort, err.Error()))
		}
		return nil
	}
	n, err := a.next()
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	p.NodePort = int32(a.config.FirstPort + n)
	return nil
}

func (a *allocation) takePort(port int) error {
	n, ok := a.portNumber(port)
	if !ok {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.config.FirstPort, a.config.LastPort)
	}
	if a.take(n) != nil {
		return fmt.Errorf("provided port is already allocated")
	}
	return nil
}

// healthPort allocates the health check node port of a load balancer with externalTrafficPolicy Local, unless the old Service
// has one.
func (a *allocation) healthPort() error {
	if !needsHealthPort(a.svc) || a.old != nil && needsHealthPort(a.old) {
		return nil
	}
	if port := a.svc.Spec.HealthCheckNodePort; port != 0 {
		if err := a.takePort(int(port)); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", port, err))
		}
		return nil
	}
	n, err := a.next()
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort: %w", err))
	}
	a.svc.Spec.HealthCheckNodePort = int32(a.config.FirstPort + n)
	return nil
}
