package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateQuota(q, old *corev1.ResourceQuota) field.ErrorList {
	if old == nil {
		return append(check.Meta(q, true, apivalidation.NameIsDNSSubdomain), validateQuotaSpec(&q.Spec)...)
	}
	errs := append(check.MetaUpdate(q, old), validateQuotaSpec(&q.Spec)...)
	if !sets.New(q.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(check.Spec.Child("scopes"), q.Spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

func validateQuotaStatus(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := check.MetaUpdate(q, old)
	errs = append(errs, quotaAmounts(q.Status.Hard, check.Status.Child("hard"))...)
	return append(errs, quotaAmounts(q.Status.Used, check.Status.Child("used"))...)
}

func validateQuotaSpec(s *corev1.ResourceQuotaSpec) field.ErrorList {
	errs := quotaAmounts(s.Hard, check.Spec.Child("hard"))
	errs = append(errs, quotaScopes(s)...)
	if s.ScopeSelector != nil {
		errs = append(errs, quotaSelector(s)...)
	}
	return errs
}

func quotaAmounts(list corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := at.Key(string(name))
		errs = append(errs, podspec.ResourceName(name, at)...)
		if !strings.Contains(string(name), "/") && !quotaResource(name) {
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		errs = append(errs, podspec.ResourceQuantity(name, list[name], at)...)
	}
	return errs
}

var (
	podCount   = []corev1.ResourceName{corev1.ResourcePods}
	podCompute = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU,
		corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory}
	claimAmounts = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}

	quotaResources = slices.Concat(podCount, podCompute, claimAmounts, []corev1.ResourceName{
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	})
)

// quotaResource reports whether a quota may limit a resource name without a domain.
func quotaResource(name corev1.ResourceName) bool {
	return slices.Contains(quotaResources, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// scopeResources are the resources that may be limited by scope.
var scopeResources = map[corev1.ResourceQuotaScope][]corev1.ResourceName{
	corev1.ResourceQuotaScopeBestEffort:                podCount,
	corev1.ResourceQuotaScopeNotBestEffort:             slices.Concat(podCount, podCompute),
	corev1.ResourceQuotaScopeTerminating:               slices.Concat(podCount, podCompute),
	corev1.ResourceQuotaScopeNotTerminating:            slices.Concat(podCount, podCompute),
	corev1.ResourceQuotaScopePriorityClass:             slices.Concat(podCount, podCompute),
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity: slices.Concat(podCount, podCompute),
	corev1.ResourceQuotaScopeVolumeAttributesClass:     claimAmounts,
}

// scopeFits reports whether a resource may be limited within a scope.
func scopeFits(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	fitting, known := scopeResources[scope]
	return !known || !quotaResource(name) || slices.Contains(fitting, name)
}

func quotaScopes(s *corev1.ResourceQuotaSpec) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec.Child("scopes")
	for _, scope := range s.Scopes {
		if len(errs) > check.Enough {
			return errs
		}
		if _, ok := scopeResources[scope]; !ok {
			errs = append(errs, field.Invalid(at, s.Scopes, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
			if !scopeFits(scope, name) {
				errs = append(errs, field.Invalid(at, s.Scopes, "unsupported scope applied to resource"))
			}
		}
	}
	return append(errs, scopeConflicts(s.Scopes, s, at)...)
}

// scopeConflicts returns the errors of scopes that exclude each other.
func scopeConflicts(scopes []corev1.ResourceQuotaScope, s *corev1.ResourceQuotaSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(at, s.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

// existing are the scopes without values.
var existing = []corev1.ResourceQuotaScope{
	corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
	corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
}

func quotaSelector(s *corev1.ResourceQuotaSpec) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec.Child("scopeSelector", "matchExpressions")
	var scopes []corev1.ResourceQuotaScope
	for _, r := range s.ScopeSelector.MatchExpressions {
		if len(errs) > check.Enough {
			return errs
		}
		if _, ok := scopeResources[r.ScopeName]; !ok {
			errs = append(errs, field.Invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
			if !scopeFits(r.ScopeName, name) {
				errs = append(errs, field.Invalid(at, check.Shown(s.ScopeSelector), "unsupported scope applied to resource"))
			}
		}
		errs = append(errs, quotaRequirement(r, at)...)
		scopes = append(scopes, r.ScopeName)
	}
	return append(errs, scopeConflicts(scopes, s, at)...)
}

func quotaRequirement(r corev1.ScopedResourceSelectorRequirement, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if slices.Contains(existing, r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "+
			"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) != 0 {
			errs = append(errs, field.Invalid(at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	return errs
}
