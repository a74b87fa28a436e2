package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func serviceWarnings(s, _ *corev1.Service) []string {
	spec, at := &s.Spec, check.Spec
	var warnings []string
	if _, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warnings = append(warnings, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	if needsClusterIP(spec) && spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			warnings = append(warnings, utilvalidation.GetWarningsForIP(at.Child("clusterIPs").Index(i), ip)...)
		}
	}
	if isHeadless(spec) {
		warnings = append(warnings, headlessWarnings(spec)...)
	}
	for i, ip := range spec.ExternalIPs {
		warnings = append(warnings, utilvalidation.GetWarningsForIP(at.Child("externalIPs").Index(i), ip)...)
	}
	if len(spec.ExternalIPs) > 0 && !isHeadless(spec) && spec.Type != corev1.ServiceTypeExternalName {
		warnings = append(warnings, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if netutils.ParseIPSloppy(spec.LoadBalancerIP) != nil { // not validated
		warnings = append(warnings, utilvalidation.GetWarningsForIP(at.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, utilvalidation.GetWarningsForCIDR(at.Child("loadBalancerSourceRanges").Index(i), strings.TrimSpace(cidr))...)
	}
	warnings = append(warnings, nameOnlyWarnings(spec)...)
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warnings = append(warnings, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return warnings
}

func serviceStatusWarnings(s, _ *corev1.Service) []string {
	at := check.Status.Child("loadBalancer", "ingress")
	var warnings []string
	for i := range s.Status.LoadBalancer.Ingress {
		if ip := s.Status.LoadBalancer.Ingress[i].IP; ip != "" {
			warnings = append(warnings, utilvalidation.GetWarningsForIP(at.Index(i), ip)...)
		}
	}
	return warnings
}

func headlessWarnings(spec *corev1.ServiceSpec) []string {
	var warnings []string
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, "spec.loadBalancerIP is ignored for headless services")
	}
	if len(spec.ExternalIPs) > 0 {
		warnings = append(warnings, "spec.externalIPs is ignored for headless services")
	}
	if spec.SessionAffinity != corev1.ServiceAffinityNone {
		warnings = append(warnings, "spec.SessionAffinity is ignored for headless services")
	}
	return warnings
}

func nameOnlyWarnings(spec *corev1.ServiceSpec) []string {
	if spec.Type == corev1.ServiceTypeExternalName {
		if len(spec.ExternalIPs) > 0 {
			return []string{`spec.externalIPs is ignored when spec.type is "ExternalName"`}
		}
	} else if spec.ExternalName != "" {
		return []string{`spec.externalName is ignored when spec.type is not "ExternalName"`}
	}
	return nil
}
