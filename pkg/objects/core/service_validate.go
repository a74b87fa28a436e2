package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateService(s, old *corev1.Service) field.ErrorList {
	if old == nil {
		return append(check.Meta(s, true, apivalidation.NameIsDNSLabel), validateServiceNow(s, &corev1.Service{})...)
	}
	errs := check.MetaUpdate(s, old)
	errs = append(errs, addressChanges(&s.Spec, &old.Spec)...)
	errs = append(errs, balancerClass(&s.Spec, &old.Spec)...)
	if needsHealthCheck(&old.Spec) && needsHealthCheck(&s.Spec) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(check.Spec.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, validateServiceNow(s, old)...)
}

func isHeadless(s *corev1.ServiceSpec) bool {
	return len(s.ClusterIPs) == 1 && s.ClusterIPs[0] == corev1.ClusterIPNone
}

// validateServiceNow checks a service without its changes. Addresses of old may be invalid.
func validateServiceNow(s, old *corev1.Service) field.ErrorList {
	spec, at := &s.Spec, check.Spec
	errs := topologyAnnotations(s.Annotations)
	if len(spec.Ports) == 0 && !isHeadless(spec) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(at.Child("ports"), ""))
	}
	errs = append(errs, byType(spec, at)...)
	errs = append(errs, validatePorts(spec.Ports, at.Child("ports"))...)
	errs = append(errs, check.Labels(spec.Selector, at, "selector")...)
	errs = append(errs, sessionAffinity(spec, at)...)
	errs = append(errs, ClusterAddresses(spec, old.Spec.ClusterIPs)...)
	known := check.SeenOf(old.Spec.ExternalIPs)
	for i, ip := range spec.ExternalIPs {
		errs = append(errs, externalIP(ip, known, at.Child("externalIPs").Index(i))...)
	}
	errs = append(errs, check.Named(spec.Type, serviceTypes, at, "type")...)
	errs = append(errs, portConflicts(spec, at.Child("ports"))...)
	errs = append(errs, sourceRanges(s, old)...)
	balancer := spec.Type == corev1.ServiceTypeLoadBalancer
	if spec.AllocateLoadBalancerNodePorts != nil && !balancer {
		errs = append(errs, field.Forbidden(at.Child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && balancer {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	errs = append(errs, balancerClass(spec, nil)...)
	return append(errs, trafficPolicies(spec, at)...)
}

func topologyAnnotations(a map[string]string) field.ErrorList {
	hints, hasHints := a[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, hasMode := a[corev1.AnnotationTopologyMode]
	if !hasHints || !hasMode || hints == mode {
		return nil
	}
	return field.ErrorList{field.Invalid(check.Metadata.Child("annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))}
}

var (
	serviceTypes = []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}
	sessionAffinities = []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}
	externalPolicies  = []corev1.ServiceExternalTrafficPolicy{
		corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
	}
	internalPolicies = []corev1.ServiceInternalTrafficPolicy{
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
	}
	distributions = []string{
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode,
	}
)

func byType(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if isHeadless(spec) {
			return field.ErrorList{field.Invalid(at.Child("clusterIPs").Index(0), spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))}
		}
	case corev1.ServiceTypeExternalName:
		return externalName(spec, at)
	}
	return nil
}

func externalName(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	const why = "may not be set for ExternalName services"
	var errs field.ErrorList
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(at.Child("clusterIPs"), why))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ipFamilies"), why))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(at.Child("ipFamilyPolicy"), why))
	}
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(at.Child("externalName"), ""))
	}
	return append(errs, check.Subdomain(name, at, "externalName")...)
}

func validatePorts(ports []corev1.ServicePort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var names check.Seen[string]
	for i := range ports {
		name, in := ports[i].Name, at.Index(i)
		switch {
		case name == "" && len(ports) > 1:
			errs = append(errs, field.Required(in.Child("name"), ""))
		case name != "":
			errs = append(errs, check.Label(name, in, "name")...)
			if names.Again(name) {
				errs = append(errs, field.Duplicate(in.Child("name"), name))
			}
		}
		errs = append(errs, validatePort(&ports[i], in)...)
	}
	return errs
}

// validatePort checks a port except its name.
func validatePort(p *corev1.ServicePort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, check.PortNumber(p.Port, at, "port")...)
	errs = append(errs, check.Named(p.Protocol, podspec.Protocols, at, "protocol")...)
	errs = append(errs, podspec.PortNumberOrName(p.TargetPort, at, "targetPort")...)
	if p.AppProtocol != nil {
		errs = append(errs, check.Qualified(*p.AppProtocol, at, "appProtocol")...)
	}
	return errs
}

// shownServicePort formats a port for the error about a duplicate, with Go's field names.
type shownServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  any
	NodePort    int32
}

func portConflicts(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range spec.Ports {
		if spec.Type == corev1.ServiceTypeClusterIP && spec.Ports[i].NodePort != 0 {
			errs = append(errs, field.Forbidden(at.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	var nodePorts, ports check.Seen[number]
	for i := range spec.Ports {
		if p := &spec.Ports[i]; p.NodePort != 0 && nodePorts.Again(number{p.NodePort, p.Protocol}) {
			errs = append(errs, field.Duplicate(at.Index(i).Child("nodePort"), p.NodePort))
		}
	}
	for i := range spec.Ports {
		if p := &spec.Ports[i]; ports.Again(number{p.Port, p.Protocol}) {
			errs = append(errs, field.Duplicate(at.Index(i), shownServicePort{Protocol: p.Protocol, Port: p.Port, TargetPort: 0}))
		}
	}
	return errs
}

func sessionAffinity(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	errs := check.Named(spec.SessionAffinity, sessionAffinities, at, "sessionAffinity")
	at = at.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(at, "must not be set when session affinity is None"))
		}
	case corev1.ServiceAffinityClientIP:
		const needed = "when session affinity type is ClientIP"
		switch {
		case c == nil:
			errs = append(errs, field.Required(at, needed))
		case c.ClientIP == nil:
			errs = append(errs, field.Required(at.Child("clientIP"), needed))
		case c.ClientIP.TimeoutSeconds == nil:
			errs = append(errs, field.Required(at.Child("clientIP", "timeoutSeconds"), needed))
		default:
			const most = 24 * 60 * 60
			if t := c.ClientIP.TimeoutSeconds; *t <= 0 || *t > most {
				errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), t, fmt.Sprintf("must be greater than 0 and less than %d", most)))
			}
		}
	}
	return errs
}

func sourceRanges(s, old *corev1.Service) field.ErrorList {
	const only = "may only be used when `type` is 'LoadBalancer'"
	var errs field.ErrorList
	balancer := s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		at := check.Spec.Child("LoadBalancerSourceRanges")
		if !balancer {
			errs = append(errs, field.Forbidden(at, only))
		}
		known := check.SeenOf(trimmed(old.Spec.LoadBalancerSourceRanges))
		for i, cidr := range s.Spec.LoadBalancerSourceRanges {
			errs = append(errs, check.CIDR(strings.TrimSpace(cidr), known, at.Index(i))...)
		}
		return errs
	}
	value, ok := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil
	}
	at := check.Metadata.Child("annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if !balancer {
		errs = append(errs, field.Forbidden(at, only))
	}
	if value = strings.TrimSpace(value); value != "" {
		known := check.SeenOf(trimmed(strings.Split(old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey], ",")))
		for cidr := range strings.SplitSeq(value, ",") {
			errs = append(errs, check.CIDR(strings.TrimSpace(cidr), known, at)...)
		}
	}
	return errs
}

func trimmed(list []string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = strings.TrimSpace(list[i])
	}
	return out
}

// balancerClass checks loadBalancerClass and, in an update, its change.
func balancerClass(spec, old *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec.Child("loadBalancerClass")
	balancer := spec.Type == corev1.ServiceTypeLoadBalancer
	if old != nil && balancer && old.Type == corev1.ServiceTypeLoadBalancer && !samePointee(spec.LoadBalancerClass, old.LoadBalancerClass) {
		errs = append(errs, field.Invalid(at, spec.LoadBalancerClass, "may not change once set"))
	}
	switch {
	case spec.LoadBalancerClass == nil:
		return errs
	case balancer:
		return append(errs, check.Qualified(*spec.LoadBalancerClass, at)...)
	}
	return append(errs, field.Forbidden(at, "may only be used when `type` is 'LoadBalancer'"))
}

func trafficPolicies(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if external(spec) {
		errs = append(errs, check.Named(spec.ExternalTrafficPolicy, externalPolicies, at, "externalTrafficPolicy")...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(at.Child("externalTrafficPolicy"), spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	health := at.Child("healthCheckNodePort")
	switch needed := needsHealthCheck(spec); {
	case !needed && spec.HealthCheckNodePort != 0:
		errs = append(errs, field.Invalid(health, spec.HealthCheckNodePort,
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	case needed && spec.HealthCheckNodePort == 0:
		errs = append(errs, field.Required(health, ""))
	case needed:
		errs = append(errs, check.PortNumber(spec.HealthCheckNodePort, health)...)
	}
	if spec.InternalTrafficPolicy != nil {
		errs = append(errs, check.OneOf(*spec.InternalTrafficPolicy, internalPolicies, at, "internalTrafficPolicy")...)
	} else if needsClusterIP(spec) {
		errs = append(errs, field.Required(at.Child("internalTrafficPolicy"), ""))
	}
	if spec.TrafficDistribution != nil {
		errs = append(errs, check.OneOf(*spec.TrafficDistribution, distributions, at, "trafficDistribution")...)
	}
	return errs
}
