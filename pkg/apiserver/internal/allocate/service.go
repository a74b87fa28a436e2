package allocate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// needsAddress reports whether a Service of that type has a cluster address (or is headless).
func needsAddress(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

func headless(s *corev1.Service) bool {
	return s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func addressed(s *corev1.Service) bool { return needsAddress(s) && !headless(s) }

func needsPorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// givesPorts reports whether ports without a number get one.
func givesPorts(s *corev1.Service) bool {
	a := s.Spec.AllocateLoadBalancerNodePorts
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer && (a == nil || *a)
}

func needsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// inherit takes from the old Service what a client that knows nothing of allocations has left out.
func (t *transaction) inherit() {
	spec, old := &t.svc.Spec, &t.old.Spec
	if needsAddress(t.svc) && needsAddress(t.old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = old.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == old.ClusterIP {
			spec.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	}
	if needsPorts(t.svc) && needsPorts(t.old) {
		inheritPorts(spec, old)
	}
	if needsHealthPort(t.svc) && needsHealthPort(t.old) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = old.HealthCheckNodePort
	}
}

func inheritPorts(spec, old *corev1.ServiceSpec) {
	type port struct {
		protocol corev1.Protocol
		number   int32
	}
	used, byPort := map[port]bool{}, map[port]int32{}
	for _, p := range spec.Ports {
		if p.NodePort != 0 {
			used[port{p.Protocol, p.NodePort}] = true
		}
	}
	for _, p := range old.Ports {
		byPort[port{p.Protocol, p.Port}] = p.NodePort
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		if was := byPort[port{p.Protocol, p.Port}]; was != 0 && !used[port{p.Protocol, was}] {
			p.NodePort = was
			used[port{p.Protocol, was}] = true
		}
	}
}

// normalize makes clusterIP and clusterIPs say the same where a client has set only one of them.
func (t *transaction) normalize() {
	spec := &t.svc.Spec
	if t.old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	if spec.ClusterIP == t.old.Spec.ClusterIP || !slices.Equal(spec.ClusterIPs, t.old.Spec.ClusterIPs) {
		return
	}
	if spec.ClusterIPs = nil; spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// families sets ipFamilyPolicy and ipFamilies, on a cluster that has IPv4 addresses only.
func (t *transaction) families() error {
	spec := &t.svc.Spec
	if !needsAddress(t.svc) {
		return nil
	}
	bare := headless(t.svc) && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case t.old != nil && t.old.Spec.IPFamilyPolicy != nil:
			policy = *t.old.Spec.IPFamilyPolicy
		case bare:
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if single && t.old != nil {
		t.shrink()
	}
	if errs := t.checkFamilies(single); len(errs) > 0 {
		return t.invalid(errs...)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if bare {
		if len(spec.IPFamilies) < 2 && !single {
			spec.IPFamilies = append(slices.Clone(spec.IPFamilies), otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	if errs := t.checkConfigured(); len(errs) > 0 {
		return t.invalid(errs...)
	}
	return nil
}

// shrink takes the intent of going back to one family: second entries that are still those of before are dropped.
func (t *transaction) shrink() {
	spec, old := &t.svc.Spec, &t.old.Spec
	if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, old.ClusterIPs) {
		spec.ClusterIPs = spec.ClusterIPs[:1:1]
	}
	if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, old.IPFamilies) {
		spec.IPFamilies = spec.IPFamilies[:1:1]
	}
}

func (t *transaction) checkFamilies(single bool) field.ErrorList {
	spec, path := &t.svc.Spec, field.NewPath("spec")
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

// checkConfigured refuses families that the cluster does not have.
func (t *transaction) checkConfigured() field.ErrorList {
	spec, path := &t.svc.Spec, field.NewPath("spec")
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

// familyOf returns the family of an address, "" when it is none.
func familyOf(ip string) corev1.IPFamily {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return ""
	case a.Is4():
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// nodePorts gives the Service its node ports. Ports with the same number and different protocols share one.
func (t *transaction) nodePorts() error {
	if !needsPorts(t.svc) {
		return nil
	}
	ports := t.svc.Spec.Ports
	shared := map[int32]int32{}
	for _, p := range ports {
		if p.NodePort != 0 && shared[p.Port] == 0 {
			shared[p.Port] = p.NodePort
		}
	}
	for i := range ports {
		p := &ports[i]
		if p.NodePort == 0 && !givesPorts(t.svc) {
			continue
		}
		if p.NodePort == 0 {
			p.NodePort = shared[p.Port]
		}
		if p.NodePort == 0 {
			n, err := t.next(t.ports)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			p.NodePort = int32(t.config.FirstPort + n)
			shared[p.Port] = p.NodePort
			continue
		}
		if err := t.takePort(int(p.NodePort)); err != nil {
			return t.invalid(field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), p.NodePort, err.Error()))
		}
	}
	return nil
}

func (t *transaction) takePort(port int) error {
	n, ok := t.portNumber(port)
	if !ok {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", t.config.FirstPort, t.config.LastPort)
	}
	if t.take(t.ports, n) != nil {
		return fmt.Errorf("provided port is already allocated")
	}
	return nil
}

// healthPort gives a load balancer that keeps traffic on its node a port to ask for health.
func (t *transaction) healthPort() error {
	if !needsHealthPort(t.svc) {
		return nil
	}
	if port := t.svc.Spec.HealthCheckNodePort; port != 0 {
		if err := t.takePort(int(port)); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", port, err))
		}
		return nil
	}
	n, err := t.next(t.ports)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort: %w", err))
	}
	t.svc.Spec.HealthCheckNodePort = int32(t.config.FirstPort + n)
	return nil
}
