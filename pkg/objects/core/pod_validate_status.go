package core

import (
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validatePodStatus(p, old *corev1.Pod) field.ErrorList {
	at := check.Status
	errs := append(check.MetaUpdate(p, old), annotationChanges(p, old)...)
	errs = append(errs, podConditions(p.Status.Conditions, check.Metadata.Child("conditions"))...)
	errs = append(errs, observedGeneration(p, at)...)
	if p.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(at.Child("nodeName"), "may not be changed directly"))
	}
	if name := p.Status.NominatedNodeName; name != old.Status.NominatedNodeName && name != "" {
		errs = append(errs, check.Subdomain(name, at, "nominatedNodeName")...)
	}
	if p.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs, check.Immutable(p.Status.QOSClass, old.Status.QOSClass, at.Child("qosClass"))...)
	}
	errs = append(errs, containerStates(p, old, at)...)
	errs = append(errs, claimStatuses(p, at.Child("resourceClaimStatuses"))...)
	errs = append(errs, podIPs(p.Status.PodIPs, at.Child("podIPs"))...)
	return append(errs, hostIPs(&p.Status, at.Child("hostIPs"))...)
}

func podConditions(conditions []corev1.PodCondition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range conditions {
		errs = append(errs, check.Qualified(string(conditions[i].Type), at.Index(i).Child("Type"))...)
	}
	return errs
}

// observedGeneration checks that nobody claims to have seen what is not yet there.
func observedGeneration(p *corev1.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Status.ObservedGeneration < 0 {
		errs = append(errs, check.NonNegative(p.Status.ObservedGeneration, at, "observedGeneration")...)
	}
	for i := range p.Status.Conditions {
		if g := p.Status.Conditions[i].ObservedGeneration; g < 0 {
			errs = append(errs, check.NonNegative(g, at.Child("conditions").Index(i).Child("observedGeneration"))...)
		}
	}
	return errs
}

// containerStates checks that containers that shall not run again stay ended.
func containerStates(p, old *corev1.Pod, at *field.Path) field.ErrorList {
	spec := &old.Spec
	errs := stayEnded(p.Status.ContainerStatuses, old.Status.ContainerStatuses, at.Child("containerStatuses"),
		func(s *corev1.ContainerStatus) bool { return mayRestart(spec.Containers, spec.RestartPolicy, s) })
	errs = append(errs, stayEnded(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, at.Child("initContainerStatuses"),
		func(s *corev1.ContainerStatus) bool { return mayRestart(spec.InitContainers, spec.RestartPolicy, s) })...)
	return append(errs, stayEnded(p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, at.Child("ephemeralContainerStatuses"),
		func(*corev1.ContainerStatus) bool { return false })...)
}

func stayEnded(now, old []corev1.ContainerStatus, at *field.Path, restarts func(*corev1.ContainerStatus) bool) field.ErrorList {
	var errs field.ErrorList
	for i := range old {
		if old[i].State.Terminated == nil || restarts(&old[i]) {
			continue
		}
		for j := range now {
			if now[j].Name == old[i].Name && now[j].State.Terminated == nil {
				errs = append(errs, field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

// mayRestart reports whether a container that has ended may be started again.
func mayRestart(containers []corev1.Container, policy corev1.RestartPolicy, s *corev1.ContainerStatus) bool {
	if policy == corev1.RestartPolicyAlways {
		return true
	}
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name })
	if i >= 0 && containers[i].RestartPolicy != nil {
		if *containers[i].RestartPolicy == corev1.ContainerRestartPolicyAlways || len(containers[i].RestartPolicyRules) > 0 {
			return true
		}
		policy = corev1.RestartPolicy(*containers[i].RestartPolicy)
	}
	return policy == corev1.RestartPolicyOnFailure && s.State.Terminated.ExitCode != 0
}

func claimStatuses(p *corev1.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range p.Status.ResourceClaimStatuses {
		s, name := &p.Status.ResourceClaimStatuses[i], at.Index(i).Child("name")
		if !slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(name, s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if slices.ContainsFunc(p.Status.ResourceClaimStatuses[:i], func(o corev1.PodResourceClaimStatus) bool { return o.Name == s.Name }) {
			errs = append(errs, field.Duplicate(name, s.Name))
		}
		if s.ResourceClaimName != nil {
			errs = append(errs, check.Subdomain(*s.ResourceClaimName, name)...)
		}
	}
	return errs
}

func podIPs(list []corev1.PodIP, at *field.Path) field.ErrorList {
	ips := make([]string, len(list))
	for i := range list {
		ips[i] = list[i].IP
	}
	errs := validIPs(ips, at)
	if len(ips) > 1 {
		if !oneOfEachFamily(ips) {
			errs = append(errs, field.Invalid(at, list, "may specify no more than one IP for each IP family"))
		}
		for i := range list {
			if slices.Contains(ips[:i], ips[i]) {
				errs = append(errs, field.Duplicate(at.Index(i), list[i]))
			}
		}
	}
	return errs
}

func hostIPs(s *corev1.PodStatus, at *field.Path) field.ErrorList {
	if len(s.HostIPs) == 0 {
		return nil
	}
	var errs field.ErrorList
	if s.HostIP != s.HostIPs[0].IP {
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	ips := make([]string, len(s.HostIPs))
	for i := range s.HostIPs {
		ips[i] = s.HostIPs[i].IP
	}
	errs = append(errs, validIPs(ips, at)...)
	if len(ips) > 1 {
		for i := range ips {
			if slices.Contains(ips[:i], ips[i]) {
				errs = append(errs, field.Duplicate(at.Index(i), s.HostIPs[i]))
			}
		}
		if !oneOfEachFamily(ips) {
			errs = append(errs, field.Invalid(at, s.HostIPs, "may specify no more than one IP for each IP family"))
		}
	}
	return errs
}

func validIPs(ips []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Index(i), ip, false, nil)...)
	}
	return errs
}

// oneOfEachFamily reports whether there are two addresses, one of IPv4 and one of IPv6.
func oneOfEachFamily(ips []string) bool {
	if len(ips) != 2 {
		return false
	}
	return isIPv6(ips[0]) != isIPv6(ips[1])
}

func isIPv6(s string) bool {
	ip := net.ParseIP(s)
	return ip != nil && ip.To4() == nil
}
