package resource

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

func validateSlice(s, old *resourcev1.ResourceSlice) field.ErrorList {
	if old == nil {
		return append(check.Meta(s, false, validation.NameIsDNSSubdomain), sliceSpec(&s.Spec, nil)...)
	}
	return append(check.MetaUpdate(s, old), sliceSpec(&s.Spec, &old.Spec)...)
}

func sliceSpec(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	at := check.Spec
	errs := volume.ValidateDriver(s.Driver, at.Child("driver"))
	errs = append(errs, pool(&s.Pool, at.Child("pool"))...)
	if old != nil {
		errs = append(errs, check.Immutable(s.Pool.Name, old.Pool.Name, at.Child("pool", "name"))...)
		errs = append(errs, check.Immutable(s.Driver, old.Driver, at.Child("driver"))...)
		errs = append(errs, check.Immutable(s.NodeName, old.NodeName, at.Child("nodeName"))...)
	}
	errs = append(errs, sliceNodes(s, at)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	errs = append(errs, set(s.Devices, mostDevices(s), at.Child("devices"), func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, at *field.Path) field.ErrorList {
			return device(d, named(old, d.Name), isTrue(s.PerDeviceNodeSelection), at)
		})...)
	return append(errs, set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, at.Child("sharedCounters"),
		func(c *resourcev1.CounterSet) string { return c.Name }, counterSet)...)
}

func isTrue(b *bool) bool { return b != nil && *b }

// sliceNodes checks that exactly one of the four node fields is set.
func sliceNodes(s *resourcev1.ResourceSliceSpec, at *field.Path) field.ErrorList {
	c := chosen{at: at}
	c.node(s.NodeName, "must be either unset or set to a non-empty string")
	if s.NodeSelector != nil {
		c.selector(s.NodeSelector)
		if terms := s.NodeSelector.NodeSelectorTerms; len(terms) != 1 {
			c.errs = append(c.errs, field.Invalid(at.Child("nodeSelector", "nodeSelectorTerms"), check.Shown(terms), "must have exactly one node selector term"))
		}
	}
	c.flag("allNodes", s.AllNodes)
	c.flag("perDeviceNodeSelection", s.PerDeviceNodeSelection)
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	return c.one(one, one+", but multiple fields are set")
}

// chosen collects the set fields of a group of which exactly one must be set, and their errors.
type chosen struct {
	at   *field.Path
	set  []string
	errs field.ErrorList
}

func (c *chosen) node(name *string, empty string) {
	if name == nil {
		return
	}
	at := c.at.Child("nodeName")
	if *name == "" {
		c.errs = append(c.errs, field.Invalid(at, *name, empty))
		return
	}
	c.set = append(c.set, "`nodeName`")
	c.errs = append(c.errs, check.Subdomain(*name, at)...)
}

func (c *chosen) selector(s *corev1.NodeSelector) {
	c.set = append(c.set, "`nodeSelector`")
	c.errs = append(c.errs, podspec.NodeSelector(s, c.at.Child("nodeSelector"))...)
}

func (c *chosen) flag(name string, value *bool) {
	switch {
	case value == nil:
	case *value:
		c.set = append(c.set, "`"+name+"`")
	default:
		c.errs = append(c.errs, field.Invalid(c.at.Child(name), *value, "must be either unset or set to true"))
	}
}

func (c *chosen) one(none, several string) field.ErrorList {
	switch len(c.set) {
	case 0:
		return append(c.errs, field.Required(c.at, none))
	case 1:
		return c.errs
	}
	return append(c.errs, field.Invalid(c.at, fmt.Sprintf("{%s}", strings.Join(c.set, ", ")), several))
}

// mostDevices returns the maximum number of devices, lower if they have taints or counters.
func mostDevices(s *resourcev1.ResourceSliceSpec) int {
	for i := range s.Devices {
		if d := &s.Devices[i]; len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
			return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	if hasLists(s) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

func named(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

func pool(p *resourcev1.ResourcePool, at *field.Path) field.ErrorList {
	errs := poolName(p.Name, at.Child("name"))
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(at.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(at.Child("generation"), p.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

// poolName checks a name with one or more parts: node/part.
func poolName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, check.Subdomain(part, at)...)
	}
	return errs
}

func counterSet(c *resourcev1.CounterSet, at *field.Path) field.ErrorList {
	return counters(c.Name, "name", c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, at)
}

func consumption(c *resourcev1.DeviceCounterConsumption, at *field.Path) field.ErrorList {
	return counters(c.CounterSet, "counterSet", c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, at)
}

// counters checks the name of a counter set, in the field named by called, and its counters.
func counters(name, called string, all map[string]resourcev1.Counter, most int, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(at.Child(called), ""))
	} else {
		errs = check.Label(name, at, called)
	}
	if len(all) == 0 {
		return append(errs, field.Required(at.Child("counters"), ""))
	}
	return append(errs, entries(all, most, utilvalidation.DNS1123LabelMaxLength, at.Child("counters"),
		func(key string, at *field.Path) field.ErrorList { return check.Label(key, at) },
		func(resourcev1.Counter, *field.Path) field.ErrorList { return nil })...)
}
