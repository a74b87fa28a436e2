package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// sorted returns the sorted names of a resource list, so that errors are in order.
func sorted(list corev1.ResourceList) []corev1.ResourceName {
	switch len(list) {
	case 0:
		return nil
	case 1:
		for name := range list {
			return []corev1.ResourceName{name}
		}
	}
	return slices.Sorted(maps.Keys(list))
}

// validateResources checks requests and limits. named checks the name of a resource.
func validateResources(r *corev1.ResourceRequirements, named func(corev1.ResourceName, *field.Path) field.ErrorList, claims *podClaims, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	compute, huge := false, false
	each := func(list corev1.ResourceList, at *field.Path, more func(corev1.ResourceName, resource.Quantity)) {
		for _, name := range sorted(list) {
			q, key := list[name], at.Key(string(name))
			errs = append(errs, named(name, key)...)
			errs = append(errs, ResourceQuantity(name, q, key)...)
			more(name, q)
			if isHugePage(name) {
				huge = true
				if !divisible(name, q) {
					errs = append(errs, field.Invalid(key, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name)))
				}
			}
			compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	each(r.Limits, at.Child("limits"), func(corev1.ResourceName, resource.Quantity) {})
	each(r.Requests, at.Child("requests"), func(name corev1.ResourceName, q resource.Quantity) {
		errs = append(errs, withinLimit(name, q, r.Limits, at)...)
	})
	if huge && !compute {
		errs = append(errs, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return append(errs, claims.check(r.Claims, at.Child("claims"))...)
}

// resources checks the resources of a container.
func (v *validator) resources(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	if len(r.Claims) == 0 && plainResources(r) {
		return nil
	}
	return validateResources(r, ContainerResource, v.claims, at.Child("resources"))
}

// plainResources reports whether r has only valid CPU, memory and ephemeral storage, as most containers do.
func plainResources(r *corev1.ResourceRequirements) bool {
	for name, q := range r.Limits {
		if !isPlain(name) || q.Sign() < 0 {
			return false
		}
	}
	for name, q := range r.Requests {
		if !isPlain(name) || q.Sign() < 0 {
			return false
		}
		if limit, ok := r.Limits[name]; ok && q.Cmp(limit) > 0 {
			return false
		}
	}
	return true
}

func isPlain(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// withinLimit checks a request against its limit. For resources that can't be overcommitted they must be equal.
func withinLimit(name corev1.ResourceName, q resource.Quantity, limits corev1.ResourceList, at *field.Path) field.ErrorList {
	limit, ok := limits[name]
	shared := IsNative(name) && !isHugePage(name)
	switch {
	case !ok && !shared:
		return field.ErrorList{field.Required(at.Child("limits"), "Limit must be set for non overcommitable resources")}
	case ok && !shared && q.Cmp(limit) != 0:
		return field.ErrorList{field.Invalid(at.Child("requests"), q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))}
	case ok && q.Cmp(limit) > 0:
		return field.ErrorList{field.Invalid(at.Child("requests"), q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))}
	}
	return nil
}

// ResourceQuantity checks the quantity of a resource.
func ResourceQuantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	errs := check.NonNegativeQuantity(q, at)
	if isWhole(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(at, q, "must be an integer"))
	}
	return errs
}

// counted are the resources that count objects.
var counted = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

var standard = append([]corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourceStorage, corev1.ResourceRequestsStorage,
}, counted...)

func isHugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNative reports whether a resource is in Kubernetes' domain.
func IsNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtended reports whether a resource is an extended resource.
func IsExtended(name corev1.ResourceName) bool {
	if IsNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// isWhole reports whether quantities of a resource must be integers.
func isWhole(name corev1.ResourceName) bool {
	return !isPlain(name) && (slices.Contains(counted, name) || IsExtended(name))
}

func divisible(name corev1.ResourceName, q resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && q.Value()%size.Value() == 0
}

// ResourceName checks the name of a resource.
func ResourceName(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := check.Invalid(at, name, utilvalidation.IsQualifiedName(string(name))); errs != nil {
		return errs
	}
	if !strings.Contains(string(name), "/") && !slices.Contains(standard, name) && !isHugePage(name) &&
		!strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) {
		return field.ErrorList{field.Invalid(at, name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// ContainerResource checks the name of a resource of a container.
func ContainerResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if isPlain(name) || name == corev1.ResourceEphemeralStorage {
		return nil
	}
	errs := ResourceName(name, at)
	switch {
	case !strings.Contains(string(name), "/"):
		if !isHugePage(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for containers"))
		}
	case !IsNative(name) && !IsExtended(name):
		errs = append(errs, field.Invalid(at, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

var (
	resizable     = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	resizeRestart = []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}
)

func (v *validator) resizePolicy(policies []corev1.ContainerResizePolicy, at *field.Path) field.ErrorList {
	if len(policies) == 0 {
		return nil
	}
	at = at.Child("resizePolicy")
	var errs field.ErrorList
	var names check.Seen[corev1.ResourceName]
	for i := range policies {
		p := &policies[i]
		if names.Again(p.ResourceName) {
			errs = append(errs, field.Duplicate(at.Index(i), p.ResourceName))
		}
		errs = append(errs, check.Named(p.ResourceName, resizable, at)...)
		errs = append(errs, check.Named(p.RestartPolicy, resizeRestart, at)...)
		if v.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(at, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}
