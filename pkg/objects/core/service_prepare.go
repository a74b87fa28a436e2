package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// prepareService also fills what the allocators have given before and a writer who does not know it left out, and
// drops what a service of its new type no longer needs.
func prepareService(s, old *corev1.Service) {
	if old == nil {
		s.Status = corev1.ServiceStatus{}
		if s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
		}
		return
	}
	s.Status = old.Status
	dropUnneeded(&s.Spec, &old.Spec)
	keepAllocated(&s.Spec, &old.Spec)
	syncClusterIPs(&s.Spec, &old.Spec)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func keepAllocated(s, old *corev1.ServiceSpec) {
	if needsClusterIP(s) && needsClusterIP(old) {
		if s.ClusterIP == "" {
			s.ClusterIP = old.ClusterIP
		}
		if len(s.ClusterIPs) == 0 && s.ClusterIP == old.ClusterIP {
			s.ClusterIPs = old.ClusterIPs
		}
	}
	if needsNodePort(s) && needsNodePort(old) {
		keepNodePorts(s.Ports, old.Ports)
	}
	if needsHealthCheck(s) && needsHealthCheck(old) && s.HealthCheckNodePort == 0 {
		s.HealthCheckNodePort = old.HealthCheckNodePort
	}
}

// keepNodePorts gives ports the node ports that those of their names had, if no other port has taken them.
func keepNodePorts(ports, old []corev1.ServicePort) {
	taken := func(n int32) bool {
		return slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.NodePort == n })
	}
	for i := range ports {
		if ports[i].NodePort != 0 {
			continue
		}
		for j := range old {
			if old[j].Name == ports[i].Name && !taken(old[j].NodePort) {
				ports[i].NodePort = old[j].NodePort
			}
		}
	}
}

// syncClusterIPs follows a writer who knows only one of clusterIP and clusterIPs. If both differ from before, or do not
// fit together, validation says so.
func syncClusterIPs(s, old *corev1.ServiceSpec) {
	listChanged := !slices.Equal(s.ClusterIPs, old.ClusterIPs)
	switch {
	case s.ClusterIP != old.ClusterIP && !listChanged && s.ClusterIP == "":
		s.ClusterIPs = nil
	case s.ClusterIP != old.ClusterIP && !listChanged:
		s.ClusterIPs = []string{s.ClusterIP}
	case s.ClusterIP == old.ClusterIP && listChanged && len(s.ClusterIPs) == 0:
		s.ClusterIP = ""
	}
}

// dropUnneeded removes what only the old type of a service needs and the writer did not touch.
func dropUnneeded(s, old *corev1.ServiceSpec) {
	if needsClusterIP(old) && !needsClusterIP(s) {
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
	if needsNodePort(old) && !needsNodePort(s) && sameNodePorts(s.Ports, old.Ports) {
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

func sameNodePorts(a, b []corev1.ServicePort) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ServicePort) bool { return x.NodePort == y.NodePort })
}

func needsHealthCheck(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
