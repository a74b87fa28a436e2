package core

import (
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	ipFamilies       = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	ipFamilyPolicies = []corev1.IPFamilyPolicy{
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
	}
)

// ClusterAddresses checks cluster IPs and IP families. The allocators call it before they
// allocate. Addresses in known, of the old object, may be invalid.
func ClusterAddresses(spec *corev1.ServiceSpec, known []string) field.ErrorList {
	at := check.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	list := at.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) != 0:
		errs = append(errs, field.Invalid(list, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(list, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(list, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	for i, family := range spec.IPFamilies {
		errs = append(errs, check.OneOf(family, ipFamilies, at.Child("ipFamilies").Index(i))...)
		if slices.Contains(spec.IPFamilies[:i], family) {
			errs = append(errs, field.Duplicate(at.Child("ipFamilies").Index(i), family))
		}
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, check.OneOf(*spec.IPFamilyPolicy, ipFamilyPolicies, at, "ipFamilyPolicy")...)
	}
	wrong := validClusterIPs(spec.ClusterIPs, known, list)
	errs = append(errs, wrong...)
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(list, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if len(wrong) > 0 {
		return errs
	}
	if len(spec.ClusterIPs) > 1 && !oneOfEachFamily(spec.ClusterIPs[:2]) {
		errs = append(errs, field.Invalid(list, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	return append(errs, familiesMatch(spec, list)...)
}

func validClusterIPs(ips, known []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(ips) > 1 {
				errs = append(errs, field.Invalid(at, ips, "'None' must be the first and only value"))
			}
			continue
		}
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Index(i), ip, true, known)...)
	}
	return errs
}

func familiesMatch(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	if isHeadless(spec) {
		return nil
	}
	var errs field.ErrorList
	for i := range min(len(spec.ClusterIPs), len(spec.IPFamilies)) {
		ip, family := spec.ClusterIPs[i], spec.IPFamilies[i]
		if (family == corev1.IPv6Protocol) != isIPv6(ip) && slices.Contains(ipFamilies, family) {
			errs = append(errs, field.Invalid(at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", family, i)))
		}
	}
	return errs
}

// addressChanges accepts that an update adds or removes the second address and family, and rejects a change of the first.
func addressChanges(spec, old *corev1.ServiceSpec) field.ErrorList {
	if spec.Type == corev1.ServiceTypeExternalName || old.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	if !isHeadless(spec) || !isHeadless(old) {
		errs = clusterIPChanges(spec, old)
	}
	if !isHeadless(spec) && !isHeadless(old) {
		errs = append(errs, familyChanges(spec, old)...)
	}
	return errs
}

func isSingleStack(p *corev1.IPFamilyPolicy) bool {
	return p != nil && *p == corev1.IPFamilyPolicySingleStack
}

func clusterIPChanges(spec, old *corev1.ServiceSpec) field.ErrorList {
	at := check.Spec.Child("clusterIPs")
	now, was := spec.ClusterIPs, old.ClusterIPs
	var errs field.ErrorList
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(at.Index(i), now, "may not change once set"))
			}
		}
		return errs
	}
	if len(was) > 0 && len(now) == 0 {
		errs = append(errs, field.Invalid(at.Index(0), now, "primary clusterIP can not be unset"))
	}
	if len(was) > 0 && len(now) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(at.Index(0), now, "may not change once set"))
	}
	if len(was) > 1 && len(now) == 1 && !isSingleStack(spec.IPFamilyPolicy) {
		errs = append(errs, field.Invalid(check.Spec.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

func familyChanges(spec, old *corev1.ServiceSpec) field.ErrorList {
	at := check.Spec.Child("ipFamilies").Index(0)
	now, was := spec.IPFamilies, old.IPFamilies
	var errs field.ErrorList
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(at, now, "may not change once set"))
			}
		}
		return errs
	}
	if len(was) > len(now) && len(spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(at, now, "primary ipFamily can not be unset"))
	}
	if len(was) > 0 && len(now) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(at, spec.ClusterIPs, "may not change once set"))
	}
	if len(was) > 1 && len(now) == 1 && !isSingleStack(spec.IPFamilyPolicy) {
		errs = append(errs, field.Invalid(check.Spec.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}

func externalIP(s string, known *check.Seen[string], at *field.Path) field.ErrorList {
	if errs := check.IP(s, known, at); len(errs) > 0 {
		return errs
	}
	return nonSpecialIP(netutils.ParseIPSloppy(s), s, at)
}

// nonSpecialIP rejects unspecified, loopback, link-local and multicast addresses.
func nonSpecialIP(ip net.IP, s string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ip.IsUnspecified() {
		errs = append(errs, field.Invalid(at, s, fmt.Sprintf("may not be unspecified (%v)", s)))
	}
	if ip.IsLoopback() {
		errs = append(errs, field.Invalid(at, s, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
	}
	if ip.IsLinkLocalUnicast() {
		errs = append(errs, field.Invalid(at, s, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
	}
	if ip.IsLinkLocalMulticast() {
		errs = append(errs, field.Invalid(at, s, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
	}
	return errs
}

var ipModes = []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}

func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	errs := check.MetaUpdate(s, old)
	at := check.Status.Child("loadBalancer", "ingress")
	if len(s.Status.LoadBalancer.Ingress) > 0 && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return append(errs, field.Forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'"))
	}
	known := check.SeenOf(texts(old.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) string { return in.IP }))
	for i := range s.Status.LoadBalancer.Ingress {
		errs = append(errs, ingress(&s.Status.LoadBalancer.Ingress[i], known, at.Index(i))...)
	}
	return errs
}

func ingress(in *corev1.LoadBalancerIngress, known *check.Seen[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if in.IP != "" {
		errs = append(errs, check.IP(in.IP, known, at.Child("ip"))...)
	}
	switch {
	case in.IPMode == nil && in.IP != "":
		errs = append(errs, field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
	case in.IPMode != nil && in.IP == "":
		errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
	case in.IPMode != nil:
		errs = append(errs, check.OneOf(*in.IPMode, ipModes, at, "ipMode")...)
	}
	if in.Hostname != "" {
		errs = append(errs, check.Invalid(at.Child("hostname"), in.Hostname, utilvalidation.IsDNS1123Subdomain(in.Hostname))...)
		if netutils.ParseIPSloppy(in.Hostname) != nil {
			errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
