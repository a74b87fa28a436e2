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

func validatePodStatus(p, old *corev1.Pod) field.ErrorList {
	at := check.Status
	errs := append(check.MetaUpdate(p, old), annotationChanges(p, old)...)
	errs = append(errs, podConditions(p.Status.Conditions, at.Child("conditions"))...)
	if p.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(at.Child("nodeName"), "may not be changed directly"))
	}
	if name := p.Status.NominatedNodeName; name != old.Status.NominatedNodeName && name != "" {
		errs = append(errs, check.Subdomain(name, at, "nominatedNodeName")...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(at.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
		}
	}
	if p.Status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(at.Child("observedGeneration"), p.Status.ObservedGeneration, "must be a non-negative integer"))
	}
	if p.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs, check.Immutable(p.Status.QOSClass, old.Status.QOSClass, at.Child("qosClass"))...)
	}
	errs = append(errs, containerStates(p, old, at)...)
	errs = append(errs, claimStatuses(p, at.Child("resourceClaimStatuses"))...)
	errs = append(errs, extendedClaim(p.Status.ExtendedResourceClaimStatus, &p.Spec, at.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, podIPs(p.Status.PodIPs, old.Status.PodIPs, at.Child("podIPs"))...)
	errs = append(errs, hostIPs(&p.Status, &old.Status, at.Child("hostIPs"))...)
	return append(errs, containerReports(p, at)...)
}

func podConditions(conditions []corev1.PodCondition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range conditions {
		if g := conditions[i].ObservedGeneration; g < 0 {
			errs = append(errs, field.Invalid(at.Index(i).Child("observedGeneration"), g, "must be a non-negative integer"))
		}
		errs = append(errs, check.Qualified(string(conditions[i].Type), at.Index(i), "Type")...)
	}
	return errs
}

// containerStates checks that terminated containers which may not restart stay terminated.
func containerStates(p, old *corev1.Pod, at *field.Path) field.ErrorList {
	spec := &old.Spec
	var errs field.ErrorList
	if !restartsAll(spec.InitContainers) && !restartsAll(spec.Containers) {
		errs = stayEnded(p.Status.ContainerStatuses, old.Status.ContainerStatuses, at.Child("containerStatuses"),
			func(s *corev1.ContainerStatus) bool { return mayRestart(spec.Containers, spec.RestartPolicy, s) })
		errs = append(errs, stayEnded(p.Status.InitContainerStatuses, old.Status.InitContainerStatuses, at.Child("initContainerStatuses"),
			func(s *corev1.ContainerStatus) bool { return mayRestart(spec.InitContainers, spec.RestartPolicy, s) })...)
	}
	return append(errs, stayEnded(p.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, at.Child("ephemeralContainerStatuses"),
		func(*corev1.ContainerStatus) bool { return false })...)
}

// restartsAll reports whether the exit of a container may restart all containers of the pod.
func restartsAll(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

func stayEnded(now, old []corev1.ContainerStatus, at *field.Path, restarts func(*corev1.ContainerStatus) bool) field.ErrorList {
	var errs field.ErrorList
	for i := range old {
		if old[i].State.Terminated == nil {
			continue
		}
		for j := range now {
			if now[j].Name != old[i].Name || now[j].State.Terminated != nil {
				continue
			}
			if !restarts(&old[i]) {
				errs = append(errs, field.Forbidden(at.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
			break
		}
	}
	return errs
}

// mayRestart reports whether a terminated container may be restarted.
func mayRestart(containers []corev1.Container, policy corev1.RestartPolicy, s *corev1.ContainerStatus) bool {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name })
	if i < 0 {
		return false
	}
	code := s.State.Terminated.ExitCode
	if own := containers[i].RestartPolicy; own != nil {
		if slices.ContainsFunc(containers[i].RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return applies(&r, code) }) {
			return true
		}
		policy = corev1.RestartPolicy(*own)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// applies reports whether a rule matches an exit code.
func applies(r *corev1.ContainerRestartRule, code int32) bool {
	if r.ExitCodes == nil {
		return false
	}
	has := slices.Contains(r.ExitCodes.Values, code)
	return r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn && has ||
		r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpNotIn && !has
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
			errs = append(errs, check.Subdomain(*s.ResourceClaimName, at.Index(i), "resourceClaimName")...)
		}
	}
	return errs
}

func podIPs(list, old []corev1.PodIP, at *field.Path) field.ErrorList {
	ip := func(p corev1.PodIP) string { return p.IP }
	return statusIPs(texts(list, ip), texts(old, ip), check.Shown(list), at)
}

func hostIPs(s, old *corev1.PodStatus, at *field.Path) field.ErrorList {
	if len(s.HostIPs) == 0 {
		return nil
	}
	var errs field.ErrorList
	if s.HostIP != s.HostIPs[0].IP {
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	ip := func(h corev1.HostIP) string { return h.IP }
	return append(errs, statusIPs(texts(s.HostIPs, ip), texts(old.HostIPs, ip), check.Shown(s.HostIPs), at)...)
}

func texts[T any](list []T, text func(T) string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = text(list[i])
	}
	return out
}

// statusIPs checks the addresses of a pod or its node: at most one of each family. Invalid old ones may stay.
func statusIPs(ips, old []string, all any, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Index(i), ip, true, old)...)
	}
	if len(ips) < 2 {
		return errs
	}
	both, err := netutils.IsDualStackIPStrings(ips)
	if err != nil {
		errs = append(errs, field.InternalError(at, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !both || len(ips) > 2 {
		errs = append(errs, field.Invalid(at, all, "may specify no more than one IP for each IP family"))
	}
	return errs
}

// oneOfEachFamily reports whether ips are one IPv4 and one IPv6 address.
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
