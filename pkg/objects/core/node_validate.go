package core

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateNode(n, old *corev1.Node) field.ErrorList {
	errs := check.Meta(n, false, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, taints(n.Spec.Taints, check.Metadata.Child("taints"))...)
	errs = append(errs, nodeResources(n)...)
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		errs = append(errs, field.Invalid(check.Metadata.Child("nodeSwapStatus", "capacity"), *swap.Capacity, "must be greater than zero"))
	}
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures, check.Status.Child("declaredFeatures"))...)
	errs = append(errs, podCIDRs(n.Spec.PodCIDRs, check.Spec.Child("podCIDRs"))...)
	if old != nil { // reports many errors twice, as Kubernetes does
		errs = append(errs, validateNodeUpdate(n, old)...)
	}
	return errs
}

var featureName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)
})

// wrongFeature returns what is wrong with a feature's name, or "".
func wrongFeature(name string) string {
	const most = utilvalidation.DNS1123SubdomainMaxLength
	switch {
	case len(name) > most:
		return fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, most)
	case !featureName().MatchString(name):
		return fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments separated by '/' "+
			"(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)
	}
	return ""
}

// declaredFeatures checks the declared features of a node and their order.
func declaredFeatures(names []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		if why := wrongFeature(name); why != "" {
			errs = append(errs, field.Invalid(at.Index(i), name, why))
		}
		if i+1 == len(names) {
			break
		}
		switch next := names[i+1]; {
		case name == next:
			errs = append(errs, field.Duplicate(at.Index(i+1), next))
		case name > next:
			errs = append(errs, field.Invalid(at.Index(i+1), next, "list must be sorted alphabetically"))
		}
	}
	return errs
}

// validateNodeStatus checks a write of the status like an update.
func validateNodeStatus(n, old *corev1.Node) field.ErrorList { return validateNodeUpdate(n, old) }

func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := append(check.MetaUpdate(n, old), nodeResources(n)...)
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures, check.Status.Child("declaredFeatures"))...)
	var addresses check.Seen[corev1.NodeAddress]
	for i, address := range n.Status.Addresses {
		if addresses.Again(address) {
			errs = append(errs, field.Duplicate(check.Status.Child("addresses").Index(i), check.Shown(address)))
		}
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(check.Spec.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`))
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(check.Spec.Child("providerID"), `node updates may not change providerID except from "" to valid`))
	}
	errs = append(errs, taints(n.Spec.Taints, check.Metadata.Child("taints"))...)
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(check.Spec.Child("externalID"), "may not be updated"))
	}
	return errs
}

func taints(list []corev1.Taint, at *field.Path) field.ErrorList {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	var errs field.ErrorList
	var seen check.Seen[identity]
	for i := range list {
		t, idx := &list[i], at.Index(i)
		errs = append(errs, check.LabelKey(t.Key, idx, "key")...)
		if check.LabelValue(t.Value, nil) != nil {
			errs = append(errs, field.Invalid(idx.Child("value"), t.Value, strings.Join(utilvalidation.IsValidLabelValue(t.Value), ";")))
		}
		errs = append(errs, check.Named(t.Effect, podspec.TaintEffects, idx, "effect")...)
		if seen.Again(identity{t.Key, t.Effect}) {
			err := field.Duplicate(idx, check.Shown(*t))
			err.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, err)
		}
	}
	return errs
}

func nodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	each := func(list corev1.ResourceList, name string) {
		for resource, q := range list {
			if wrong := podspec.ResourceQuantity(resource, q, check.Status); wrong != nil {
				errs = append(errs, podspec.ResourceQuantity(resource, q, check.Status.Child(name, string(resource)))...)
			}
		}
	}
	each(n.Status.Capacity, "capacity")
	each(n.Status.Allocatable, "allocatable")
	return errs
}

func podCIDRs(list []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, cidr := range list {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(at.Index(i), cidr, true, nil)...)
	}
	if len(list) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackCIDRStrings(list)
	if err != nil {
		errs = append(errs, field.InternalError(at, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !dual || len(list) > 2 {
		errs = append(errs, field.Invalid(at, list, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

func nodeWarnings(n, _ *corev1.Node) []string {
	var warnings []string
	if n.Spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, cidr := range n.Spec.PodCIDRs {
		warnings = append(warnings, utilvalidation.GetWarningsForCIDR(check.Spec.Child("podCIDRs").Index(i), cidr)...)
	}
	return warnings
}
