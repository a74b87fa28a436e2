package resource

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// longestKey is the maximum length of the name of an attribute or capacity: DOMAIN/ID.
const longestKey = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength

func device(d, old *resourcev1.Device, ownNodes bool, at *field.Path) field.ErrorList {
	errs := check.Label(d.Name, at, "name")
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	if n := valuesOf(d); n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	errs = append(errs, entries(d.Attributes, unlimited, longestKey, at.Child("attributes"), qualified, attribute)...)
	capacity := unshared
	if isTrue(d.AllowMultipleAllocations) {
		capacity = shared
	}
	errs = append(errs, entries(d.Capacity, unlimited, longestKey, at.Child("capacity"), qualified, capacity)...)
	if old == nil || !equality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, items(d.Taints, resourcev1.DeviceTaintsMaxLength, at.Child("taints"), taint)...)
	}
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, at.Child("consumesCounters"),
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet }, consumption)...)
	errs = append(errs, deviceNodes(d, ownNodes, at)...)
	errs = append(errs, bindingConditions(d.BindingConditions, d.BindingFailureConditions, at)...)
	return append(errs, mappings(d, at.Child("nodeAllocatableResourceMappings"))...)
}

// deviceNodes checks the node fields of a device, which are set if the slice is per device.
func deviceNodes(d *resourcev1.Device, own bool, at *field.Path) field.ErrorList {
	if !own {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(at, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
		}
		return nil
	}
	c := chosen{at: at}
	c.node(d.NodeName, "must not be empty")
	if d.NodeSelector != nil {
		c.selector(d.NodeSelector)
	}
	c.flag("allNodes", d.AllNodes)
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	return c.one(one, one)
}

func taint(t *resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
	errs := check.LabelKey(t.Key, at, "key")
	errs = append(errs, check.LabelValue(t.Value, at, "value")...)
	return append(errs, check.Named(t.Effect, effects, at, "effect")...)
}

// bindingConditions checks bindingConditions and bindingFailureConditions.
func bindingConditions(good, bad []string, at *field.Path) field.ErrorList {
	key := func(s *string, at *field.Path) field.ErrorList { return check.LabelKey(*s, at) }
	errs := items(good, resourcev1.BindingConditionsMaxSize, at.Child("bindingConditions"), key)
	errs = append(errs, items(bad, resourcev1.BindingFailureConditionsMaxSize, at.Child("bindingFailureConditions"), key)...)
	var waits, fails check.Seen[string]
	for i, c := range good {
		if waits.Again(c) {
			errs = append(errs, field.Duplicate(at.Child("bindingConditions").Index(i), c))
		}
	}
	for i, c := range bad {
		at := at.Child("bindingFailureConditions").Index(i)
		if fails.Again(c) {
			errs = append(errs, field.Duplicate(at, c))
		}
		if waits.Has(c) {
			errs = append(errs, field.Invalid(at, c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	if len(good) == 0 && len(bad) > 0 {
		errs = append(errs, field.Invalid(at.Child("bindingConditions"), good, "bindingConditions are required to use bindingFailureConditions"))
	}
	if len(bad) == 0 && len(good) > 0 {
		errs = append(errs, field.Invalid(at.Child("bindingFailureConditions"), bad, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}

// mappings checks the node resources that a device uses.
func mappings(d *resourcev1.Device, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(d.NodeAllocatableResourceMappings)) {
		m := d.NodeAllocatableResourceMappings[name]
		errs = append(errs, mapping(name, &m, d.Capacity, at.Key(string(name)))...)
	}
	return errs
}

func mapping(name corev1.ResourceName, m *resourcev1.NodeAllocatableResourceMapping, capacity map[resourcev1.QualifiedName]resourcev1.DeviceCapacity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !podspec.IsNative(name) {
		errs = append(errs, field.Invalid(at, name, "must be a node allocatable resource name"))
	}
	if m.AllocationMultiplier == nil && m.CapacityKey == nil {
		return append(errs, field.Invalid(at, "", "at least one of allocationMultiplier or capacityKey must be set"))
	}
	if q := m.AllocationMultiplier; q != nil && q.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("allocationMultiplier"), q.String(), "must be positive"))
	}
	if key := m.CapacityKey; key != nil {
		if *key == "" {
			errs = append(errs, field.Invalid(at.Child("capacityKey"), "", "capacityKey must not be an empty string"))
		} else if _, ok := capacity[*key]; !ok {
			errs = append(errs, field.NotFound(at.Child("capacityKey"), *key))
		}
	}
	return errs
}
