package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validateLimitRange(l, _ *corev1.LimitRange) field.ErrorList {
	errs := check.Meta(l, true, apivalidation.NameIsDNSSubdomain)
	at := check.Spec.Child("limits")
	seen := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, at := &l.Spec.Limits[i], at.Index(i)
		errs = append(errs, limitType(item.Type, at.Child("type"))...)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, validateLimit(item, at)...)
	}
	return errs
}

var limitTypes = []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}

func limitType(t corev1.LimitType, at *field.Path) field.ErrorList {
	if errs := check.Invalid(at, t, utilvalidation.IsQualifiedName(string(t))); errs != nil {
		return errs
	}
	if !strings.Contains(string(t), "/") && !slices.Contains(limitTypes, t) {
		return field.ErrorList{field.Invalid(at, t, "must be a standard limit type or fully qualified")}
	}
	return nil
}

func validateLimit(l *corev1.LimitRangeItem, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[corev1.ResourceName]bool{}
	each := func(list corev1.ResourceList, child string) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			errs = append(errs, limitedResource(l.Type, name, at.Child(child).Key(string(name)))...)
			names[name] = true
		}
	}
	each(l.Max, "max")
	each(l.Min, "min")
	if l.Type == corev1.LimitTypePod {
		if len(l.Default) > 0 {
			errs = append(errs, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(l.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	} else {
		each(l.Default, "default")
		each(l.DefaultRequest, "defaultRequest")
	}
	if l.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := l.Min[corev1.ResourceStorage]
		_, most := l.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(at.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	each(l.MaxLimitRequestRatio, "maxLimitRequestRatio")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		errs = append(errs, limitOrder(l, name, at)...)
	}
	return errs
}

func limitedResource(t corev1.LimitType, name corev1.ResourceName, at *field.Path) field.ErrorList {
	if t == corev1.LimitTypePod || t == corev1.LimitTypeContainer {
		return podspec.ContainerResource(name, at)
	}
	return podspec.ResourceName(name, at)
}

// bound is an optional quantity of a resource in a limit.
type bound struct {
	resource.Quantity
	set bool
	at  *field.Path
}

// above reports whether both are set and b is more than other.
func (b bound) above(other bound) bool { return b.set && other.set && b.Cmp(other.Quantity) > 0 }

// limitOrder checks that min ≤ default request ≤ default limit ≤ max.
func limitOrder(l *corev1.LimitRangeItem, name corev1.ResourceName, at *field.Path) field.ErrorList {
	of := func(list corev1.ResourceList, child string) bound {
		q, ok := list[name]
		return bound{q, ok, at.Child(child).Key(string(name))}
	}
	least, most, ratio := of(l.Min, "min"), of(l.Max, "max"), of(l.MaxLimitRequestRatio, "maxLimitRequestRatio")
	var limit, request bound
	if l.Type != corev1.LimitTypePod {
		limit, request = of(l.Default, "default"), of(l.DefaultRequest, "defaultRequest")
	}
	var errs field.ErrorList
	compare := func(low, high, shown bound, at *field.Path, format string) {
		if low.above(high) {
			errs = append(errs, field.Invalid(at, shown.Quantity, fmt.Sprintf(format, low.String(), high.String())))
		}
	}
	compare(least, most, least, least.at, "min value %s is greater than max value %s")
	compare(least, request, request, request.at, "min value %s is greater than default request value %s")
	compare(request, most, request, request.at, "default request value %s is greater than max value %s")
	compare(request, limit, request, request.at, "default request value %s is greater than default limit value %s")
	compare(least, limit, least, limit.at, "min value %s is greater than default value %s")
	compare(limit, most, most, limit.at, "default value %s is greater than max value %s")
	if ratio.set {
		errs = append(errs, limitRatio(ratio, least, most)...)
	}
	if !shareable(name) && limit.set && request.set && limit.Cmp(request.Quantity) != 0 {
		errs = append(errs, field.Invalid(request.at, request.Quantity,
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)))
	}
	return errs
}

// limitRatio checks the maximum ratio of limit to request.
func limitRatio(ratio, least, most bound) field.ErrorList {
	var errs field.ErrorList
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(ratio.at, ratio.Quantity, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	if !least.set || !most.set {
		return errs
	}
	value, low, high := float64(ratio.Value()), least.Value(), most.Value()
	if ratio.Value() < resource.MaxMilliValue && low < resource.MaxMilliValue && high < resource.MaxMilliValue {
		value, low, high = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	if limit := float64(high) / float64(low); value > limit {
		errs = append(errs, field.Invalid(ratio.at, ratio.Quantity, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), limit)))
	}
	return errs
}

// shareable reports whether a resource can be overcommitted.
func shareable(name corev1.ResourceName) bool {
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	return native && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
