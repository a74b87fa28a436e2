package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// Options describe the object of a spec.
type Options struct {
	Pod  bool            // of a pod, not of a template
	Name string          // the pod's name; "" in a template
	Old  *corev1.PodSpec // before an update; nil for a create
}

// validator holds what the checks of a part of the spec need of its other parts.
type validator struct {
	Options
	spec    *corev1.PodSpec
	volumes volume.Known
	claims  *podClaims

	// Invalid fields that the old spec has, so that an update may keep them.
	relabels     bool // the old spec has an invalid seLinuxChangePolicy
	restartsInit bool // the old spec has a resize policy that restarts an init container
}

// hostUsers reports whether the pod uses the host's user namespace, the default.
func (v *validator) hostUsers() bool { return v.spec.HostUsers == nil || *v.spec.HostUsers }

// Validate checks the spec of a pod or of a template.
func Validate(s *corev1.PodSpec, o Options, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(at.Child("terminationGracePeriodSeconds"), ""))
	}
	v := validator{Options: o, spec: s}
	if o.Old != nil {
		v.relabels = o.Old.SecurityContext != nil && o.Old.SecurityContext.SELinuxChangePolicy != nil
		v.restartsInit = restartsInit(o.Old)
	}
	known, problems := volume.Validate(s.Volumes, o.Name, at.Child("volumes"))
	v.volumes, v.claims = known, claimsOf(s.ResourceClaims)
	errs = append(errs, problems...)
	errs = append(errs, validateClaims(s.ResourceClaims, at)...)
	errs = append(errs, v.containers(at.Child("containers"))...)
	errs = append(errs, v.initContainers(at)...)
	errs = append(errs, v.ephemeralContainers(at)...)
	errs = append(errs, v.podResources(at)...)
	errs = append(errs, v.hostNetworkPorts(at)...)
	errs = append(errs, check.Named(s.RestartPolicy, restartPolicies, at, "restartPolicy")...)
	errs = append(errs, check.Named(s.DNSPolicy, dnsPolicies, at, "dnsPolicy")...)
	errs = append(errs, check.Labels(s.NodeSelector, at, "nodeSelector")...)
	errs = append(errs, v.podSecurity(at)...)
	errs = append(errs, validateAffinity(s.Affinity, at)...)
	errs = append(errs, validateDNSConfig(s.DNSConfig, s.DNSPolicy, at)...)
	for i := range s.ReadinessGates {
		errs = append(errs, check.Qualified(string(s.ReadinessGates[i].ConditionType), at.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	errs = append(errs, validateGates(s.SchedulingGates, at)...)
	errs = append(errs, validateSpread(s.TopologySpreadConstraints, at)...)
	errs = append(errs, v.hostProcess(at)...)
	errs = append(errs, v.userNamespace(at)...)
	errs = append(errs, v.names(at)...)
	errs = append(errs, v.rest(at)...)
	errs = append(errs, validateSchedulingGroup(s.SchedulingGroup, at.Child("schedulingGroup"))...)
	return append(errs, v.fileKeyVolumes(at)...)
}

var (
	restartPolicies = []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	dnsPolicies     = []corev1.DNSPolicy{corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone}
	preemption      = []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}
	systems         = []corev1.OSName{corev1.Linux, corev1.Windows}
)

func subdomain(name string, at *field.Path, child ...string) field.ErrorList {
	if name == "" {
		return nil
	}
	return check.Subdomain(name, at, child...)
}

func label(name string, at *field.Path, child ...string) field.ErrorList {
	if name == "" {
		return nil
	}
	return check.Label(name, at, child...)
}

func (v *validator) names(at *field.Path) field.ErrorList {
	s := v.spec
	errs := v.hostnameOverride(at)
	errs = append(errs, subdomain(s.ServiceAccountName, at, "serviceAccountName")...)
	errs = append(errs, subdomain(s.NodeName, at, "nodeName")...)
	if n := s.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *n, utilvalidation.InclusiveRangeError(1, math.MaxInt32)))
	}
	errs = append(errs, label(s.Hostname, at, "hostname")...)
	return append(errs, label(s.Subdomain, at, "subdomain")...)
}

func (v *validator) hostnameOverride(at *field.Path) field.ErrorList {
	s := v.spec
	if s.HostnameOverride == nil {
		return nil
	}
	var errs field.ErrorList
	if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at.Child("hostnameOverride"), "may not be specified when setHostnameAsFQDN is true"))
	}
	if s.HostNetwork {
		errs = append(errs, field.Forbidden(at.Child("hostnameOverride"), "may not be specified when hostNetwork is true"))
	}
	if len(*s.HostnameOverride) > 64 {
		errs = append(errs, field.TooLong(at.Child("hostnameOverride"), *s.HostnameOverride, 64))
	}
	return append(errs, check.Invalid(at.Child("hostnameOverride"), *s.HostnameOverride, apivalidation.NameIsDNSSubdomain(*s.HostnameOverride, false))...)
}

func (v *validator) rest(at *field.Path) field.ErrorList {
	s := v.spec
	errs := Tolerations(s.Tolerations, at.Child("tolerations"))
	errs = append(errs, validateAliases(s.HostAliases, at)...)
	errs = append(errs, subdomain(s.PriorityClassName, at, "priorityClassName")...)
	if s.RuntimeClassName != nil {
		errs = append(errs, check.Subdomain(*s.RuntimeClassName, at, "runtimeClassName")...)
	}
	if s.PreemptionPolicy != nil {
		errs = append(errs, check.Named(*s.PreemptionPolicy, preemption, at, "preemptionPolicy")...)
	}
	if s.Overhead != nil {
		r := corev1.ResourceRequirements{Limits: s.Overhead}
		errs = append(errs, validateResources(&r, ContainerResource, nil, at.Child("overhead"))...)
	}
	if s.OS != nil {
		errs = append(errs, v.system(at)...)
	}
	return errs
}

func validateClaims(claims []corev1.PodResourceClaim, at *field.Path) field.ErrorList {
	if len(claims) == 0 {
		return nil
	}
	at = at.Child("resourceClaims")
	var errs field.ErrorList
	var names check.Seen[string]
	for i := range claims {
		c, idx := &claims[i], at.Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(idx.Child("name"), ""))
		case names.Again(c.Name):
			errs = append(errs, field.Duplicate(idx.Child("name"), c.Name))
		default:
			errs = append(errs, check.Label(c.Name, idx, "name")...)
		}
		if c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil {
			errs = append(errs, field.Invalid(idx, check.Shown(c), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		}
		if c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil {
			errs = append(errs, field.Invalid(idx, check.Shown(c), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if c.ResourceClaimName != nil {
			errs = append(errs, check.Subdomain(*c.ResourceClaimName, idx, "resourceClaimName")...)
		}
		if c.ResourceClaimTemplateName != nil {
			errs = append(errs, check.Subdomain(*c.ResourceClaimTemplateName, idx, "resourceClaimTemplateName")...)
		}
	}
	return errs
}

func validateGates(gates []corev1.PodSchedulingGate, at *field.Path) field.ErrorList {
	if len(gates) == 0 {
		return nil
	}
	at = at.Child("schedulingGates")
	var errs field.ErrorList
	var names check.Seen[string]
	for i := range gates {
		errs = append(errs, check.Qualified(gates[i].Name, at.Index(i))...)
		if names.Again(gates[i].Name) {
			errs = append(errs, field.Duplicate(at.Index(i), gates[i].Name))
		}
	}
	return errs
}

func validateAliases(aliases []corev1.HostAlias, at *field.Path) field.ErrorList {
	if len(aliases) == 0 {
		return nil
	}
	at = at.Child("hostAliases")
	var errs field.ErrorList
	for i := range aliases {
		errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Index(i).Child("ip"), aliases[i].IP, true, nil)...)
		for j, name := range aliases[i].Hostnames {
			errs = append(errs, check.Subdomain(name, at.Index(i).Child("hostnames").Index(j))...)
		}
	}
	return errs
}

// hostNetworkPorts checks that host ports equal container ports with hostNetwork. In a template a host port may be
// unset, since the pod's defaults set it.
func (v *validator) hostNetworkPorts(at *field.Path) field.ErrorList {
	if !v.spec.HostNetwork {
		return nil
	}
	var errs field.ErrorList
	for i := range v.spec.Containers {
		for j, p := range v.spec.Containers[i].Ports {
			if (v.Pod || p.HostPort != 0) && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(at.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return errs
}
