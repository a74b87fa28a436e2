package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// prepareService drops the fields that the new type of a service does not use.
func prepareService(s, old *corev1.Service) {
	if old == nil {
		s.Status = corev1.ServiceStatus{}
		return
	}
	s.Status = old.Status
	dropUnneeded(&s.Spec, &old.Spec)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

// KeepAllocated restores allocated fields of old (nil for a create) that a client has left out,
// and synchronises clusterIP and clusterIPs. It must be called before the allocators.
func KeepAllocated(s, old *corev1.ServiceSpec) {
	if old == nil {
		if s.ClusterIP != "" && len(s.ClusterIPs) == 0 {
			s.ClusterIPs = []string{s.ClusterIP}
		}
		return
	}
	if hasAddress(s) && hasAddress(old) {
		if s.ClusterIP == "" {
			s.ClusterIP = old.ClusterIP
		}
		if len(s.ClusterIPs) == 0 {
			s.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	}
	if GivesNodePorts(s) && GivesNodePorts(old) {
		keepNodePorts(s.Ports, old.Ports)
	}
	if needsHealthCheck(s) && needsHealthCheck(old) && s.HealthCheckNodePort == 0 {
		s.HealthCheckNodePort = old.HealthCheckNodePort
	}
	syncClusterIPs(s, old)
}

// hasAddress reports whether services of the type have a cluster IP, which may be None.
func hasAddress(s *corev1.ServiceSpec) bool { return s.Type != corev1.ServiceTypeExternalName }

// GivesNodePorts reports whether node ports are allocated.
func GivesNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer &&
		(s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts)
}

// keepNodePorts copies node ports from old ports of the same name, unless another new port has them.
func keepNodePorts(ports, old []corev1.ServicePort) {
	was := map[string]int32{}
	for i := range old {
		was[old[i].Name] = old[i].NodePort
	}
	used := map[int32]bool{}
	for i := range ports {
		used[ports[i].NodePort] = true
	}
	for i := range ports {
		if n := was[ports[i].Name]; ports[i].NodePort == 0 && !used[n] {
			ports[i].NodePort = n
		}
	}
}

// syncClusterIPs applies a change of only clusterIP to clusterIPs. If both have changed or are inconsistent,
// validation reports it.
func syncClusterIPs(s, old *corev1.ServiceSpec) {
	switch {
	case s.ClusterIP == old.ClusterIP:
		if len(s.ClusterIPs) == 0 {
			s.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	case !slices.Equal(s.ClusterIPs, old.ClusterIPs): // the client has changed both
	case s.ClusterIP == "":
		s.ClusterIPs = nil
	default:
		s.ClusterIPs = []string{s.ClusterIP}
	}
}

// dropUnneeded removes unchanged fields that only the old type of a service uses.
func dropUnneeded(s, old *corev1.ServiceSpec) {
	if hasAddress(old) && !hasAddress(s) {
		if s.ClusterIP == old.ClusterIP && slices.Equal(s.ClusterIPs, old.ClusterIPs) {
			s.ClusterIP, s.ClusterIPs = "", nil
		}
		if slices.Equal(s.IPFamilies, old.IPFamilies) {
			s.IPFamilies = nil
		}
		if samePointee(s.IPFamilyPolicy, old.IPFamilyPolicy) {
			s.IPFamilyPolicy = nil
		}
	}
	if mayHaveNodePorts(old) && !mayHaveNodePorts(s) && noNewNodePorts(s.Ports, old.Ports) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheck(old) && !needsHealthCheck(s) && s.HealthCheckNodePort == old.HealthCheckNodePort {
		s.HealthCheckNodePort = 0
	}
	if old.Type == corev1.ServiceTypeLoadBalancer && s.Type != corev1.ServiceTypeLoadBalancer {
		if samePointee(s.AllocateLoadBalancerNodePorts, old.AllocateLoadBalancerNodePorts) {
			s.AllocateLoadBalancerNodePorts = nil
		}
		if samePointee(s.LoadBalancerClass, old.LoadBalancerClass) {
			s.LoadBalancerClass = nil
		}
	}
	if external(old) && !external(s) && s.ExternalTrafficPolicy == old.ExternalTrafficPolicy {
		s.ExternalTrafficPolicy = ""
	}
}

func samePointee[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func mayHaveNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
}

func noNewNodePorts(ports, old []corev1.ServicePort) bool {
	var had check.Seen[int32]
	for i := range old {
		had.Again(old[i].NodePort)
	}
	return !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 && !had.Has(p.NodePort) })
}

func needsHealthCheck(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
