package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

const unset = "<unset>"

var driverDoc = storagev1.CSIDriverSpec{}.SwaggerDoc()

// CSIDrivers is the row of CSIDriver.
var CSIDrivers = objects.Def[*storagev1.CSIDriver]{
	Names:          objects.Names{Group: group, Version: version, Kind: "CSIDriver", Plural: "csidrivers", Cluster: true},
	Versions:       oldCSIDrivers,
	New:            func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &storagev1.CSIDriverList{} },
	Default:        defaultDriver,
	Prepare:        prepareDriver,
	Validate:       validateDriver,
	Warnings:       driverWarnings,
	Columns: []objects.Column[*storagev1.CSIDriver]{
		objects.NameColumn[*storagev1.CSIDriver](),
		{Name: "AttachRequired", Type: "boolean", Description: driverDoc["attachRequired"],
			Cell: func(d *storagev1.CSIDriver, _ time.Time) any { return or(d.Spec.AttachRequired, true) }},
		{Name: "PodInfoOnMount", Type: "boolean", Description: driverDoc["podInfoOnMount"],
			Cell: func(d *storagev1.CSIDriver, _ time.Time) any { return or(d.Spec.PodInfoOnMount, false) }},
		{Name: "StorageCapacity", Type: "boolean", Description: driverDoc["storageCapacity"],
			Cell: func(d *storagev1.CSIDriver, _ time.Time) any { return or(d.Spec.StorageCapacity, false) }},
		{Name: "TokenRequests", Description: driverDoc["tokenRequests"], Cell: func(d *storagev1.CSIDriver, _ time.Time) any {
			if d.Spec.TokenRequests == nil {
				return unset
			}
			var audiences []string
			for _, t := range d.Spec.TokenRequests {
				audiences = append(audiences, t.Audience)
			}
			return strings.Join(audiences, ",")
		}},
		{Name: "RequiresRepublish", Type: "boolean", Description: driverDoc["requiresRepublish"],
			Cell: func(d *storagev1.CSIDriver, _ time.Time) any { return or(d.Spec.RequiresRepublish, false) }},
		{Name: "Modes", Description: driverDoc["volumeLifecycleModes"], Cell: func(d *storagev1.CSIDriver, _ time.Time) any {
			var modes []string
			for _, m := range d.Spec.VolumeLifecycleModes {
				modes = append(modes, string(m))
			}
			if len(modes) == 0 {
				return "<none>"
			}
			return strings.Join(modes, ",")
		}},
		objects.AgeColumn[*storagev1.CSIDriver](),
	},
	NeedsVersion: true,
}

func defaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	for _, f := range []struct {
		to    **bool
		value bool
	}{{&s.AttachRequired, true}, {&s.PodInfoOnMount, false}, {&s.StorageCapacity, false}, {&s.RequiresRepublish, false}, {&s.SELinuxMount, false}} {
		if *f.to == nil {
			*f.to = &f.value
		}
	}
	if s.FSGroupPolicy == nil {
		s.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func prepareDriver(d, old *storagev1.CSIDriver) {
	if old == nil {
		d.Spec.PreventPodSchedulingIfMissing = nil // its feature gate is off
		return
	}
	if old.Spec.PreventPodSchedulingIfMissing == nil {
		d.Spec.PreventPodSchedulingIfMissing = nil
	}
	check.Generation(d, old, func() bool { return !check.Same(&d.Spec, &old.Spec) })
}

var (
	groupPolicies  = []storagev1.FSGroupPolicy{storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy}
	lifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
)

// driverWarnings warns of a driver that receives tokens in a field which logs may contain.
func driverWarnings(d, old *storagev1.CSIDriver) []string {
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil ||
		old != nil && equality.Semantic.DeepEqual(old.Spec.TokenRequests, d.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

func validateDriver(d, old *storagev1.CSIDriver) field.ErrorList {
	at := field.NewPath("spec")
	s := &d.Spec
	errs := check.Meta(d, false, validation.NameIsDNSSubdomain)
	if old != nil {
		errs = check.MetaUpdate(d, old)
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"attachedRequired", s.AttachRequired}, {"podInfoOnMount", s.PodInfoOnMount}, {"storageCapacity", s.StorageCapacity}} {
		if f.value == nil {
			errs = append(errs, field.Required(at.Child(f.name), ""))
		}
	}
	if s.FSGroupPolicy != nil {
		errs = append(errs, check.OneOf(*s.FSGroupPolicy, groupPolicies, at, "fsGroupPolicy")...)
	}
	errs = append(errs, tokenRequests(s.TokenRequests, at.Child("tokenRequests"))...)
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, check.OneOf(m, lifecycleModes, at, "volumeLifecycleModes")...)
	}
	if s.SELinuxMount == nil {
		errs = append(errs, field.Required(at.Child("seLinuxMount"), ""))
	}
	if p := s.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < 10 {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *p, "must be greater than or equal to 10 seconds"))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), s.ServiceAccountTokenInSecrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if old != nil {
		errs = append(errs, check.Immutable(s.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired"))...)
		errs = append(errs, check.Immutable(s.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes"))...)
	}
	return errs
}

func tokenRequests(list []storagev1.TokenRequest, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, t := range list {
		if seen[t.Audience] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("audience"), t.Audience))
			continue
		}
		seen[t.Audience] = true
		seconds := at.Index(i).Child("expirationSeconds")
		switch {
		case t.ExpirationSeconds == nil:
		case *t.ExpirationSeconds < 600:
			errs = append(errs, field.Invalid(seconds, *t.ExpirationSeconds, "may not specify a duration less than 10 minutes"))
		case *t.ExpirationSeconds > 1<<32:
			errs = append(errs, field.Invalid(seconds, *t.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

// CSINodes is the row of CSINode.
var CSINodes = objects.Def[*storagev1.CSINode]{
	Names:          objects.Names{Group: group, Version: version, Kind: "CSINode", Plural: "csinodes", Cluster: true},
	Versions:       oldCSINodes,
	New:            func() *storagev1.CSINode { return &storagev1.CSINode{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &storagev1.CSINodeList{} },
	Validate:       validateNode,
	Columns: []objects.Column[*storagev1.CSINode]{
		objects.NameColumn[*storagev1.CSINode](),
		{Name: "Drivers", Type: "integer", Description: "Drivers indicates the number of CSI drivers registered on the node",
			Cell: func(n *storagev1.CSINode, _ time.Time) any { return int64(len(n.Spec.Drivers)) }},
		objects.AgeColumn[*storagev1.CSINode](),
	},
	NeedsVersion: true,
}

// longestNodeID is the maximum length of a driver's node ID.
const longestNodeID = 256

func validateNode(n, old *storagev1.CSINode) field.ErrorList {
	drivers := field.NewPath("spec", "drivers")
	errs := check.Meta(n, false, validation.NameIsDNSSubdomain)
	var names check.Seen[string]
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], drivers.Index(i)
		errs = append(errs, volume.ValidateDriver(d.Name, at.Child("name"))...)
		if id := at.Child("nodeID"); d.NodeID == "" {
			errs = append(errs, field.Required(id, ""))
		} else if len(d.NodeID) > longestNodeID {
			errs = append(errs, field.Invalid(id, d.NodeID, fmt.Sprintf("must be %d characters or less", longestNodeID)))
		}
		if a := d.Allocatable; a != nil && a.Count != nil {
			errs = append(errs, check.NonNegative(*a.Count, at, "allocatable", "count")...)
		}
		if names.Again(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		var keys check.Seen[string]
		for _, key := range d.TopologyKeys {
			if key == "" {
				errs = append(errs, field.Required(at, ""))
			}
			if keys.Again(key) {
				errs = append(errs, field.Duplicate(at, key))
			}
			errs = append(errs, check.Qualified(key, at)...)
		}
	}
	if old == nil {
		return errs
	}
	byName := make(map[string][]storagev1.CSINodeDriver, len(n.Spec.Drivers))
	for _, now := range n.Spec.Drivers {
		now.Allocatable = nil // mutable
		byName[now.Name] = append(byName[now.Name], now)
	}
	for _, was := range old.Spec.Drivers { // the names are unique
		was.Allocatable = nil
		for _, now := range byName[was.Name] {
			errs = append(errs, check.ImmutableShown(now, was, drivers)...)
		}
	}
	return errs
}

// CSIStorageCapacities is the row of CSIStorageCapacity.
var CSIStorageCapacities = objects.Def[*storagev1.CSIStorageCapacity]{
	Names:    objects.Names{Group: group, Version: version, Kind: "CSIStorageCapacity", Plural: "csistoragecapacities"},
	Versions: oldCSIStorageCapacities,
	New:      func() *storagev1.CSIStorageCapacity { return &storagev1.CSIStorageCapacity{} },
	NewList:  func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
	Validate: validateCapacity,
	Warnings: func(c, _ *storagev1.CSIStorageCapacity) []string {
		return topologyWarnings(c.NodeTopology, field.NewPath("nodeTopology"))
	},
	Columns: []objects.Column[*storagev1.CSIStorageCapacity]{
		objects.NameColumn[*storagev1.CSIStorageCapacity](),
		{Name: "StorageClassName", Description: storagev1.CSIStorageCapacity{}.SwaggerDoc()["storageClassName"],
			Cell: func(c *storagev1.CSIStorageCapacity, _ time.Time) any { return c.StorageClassName }},
		{Name: "Capacity", Description: storagev1.CSIStorageCapacity{}.SwaggerDoc()["capacity"], Cell: func(c *storagev1.CSIStorageCapacity, _ time.Time) any {
			if c.Capacity == nil {
				return unset
			}
			return c.Capacity.String()
		}},
	},
	NeedsVersion: true,
}

func validateCapacity(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	topology, class := field.NewPath("nodeTopology"), field.NewPath("storageClassName")
	opts := metav1validation.LabelSelectorValidationOptions{}
	if old != nil {
		opts.AllowInvalidLabelValueInSelector = len(check.Selector(old.NodeTopology, opts, nil)) > 0
	}
	errs := append(check.Meta(c, true, validation.NameIsDNSSubdomain), check.Selector(c.NodeTopology, opts, topology)...)
	errs = append(errs, check.Subdomain(c.StorageClassName, class)...)
	if c.Capacity != nil {
		errs = append(errs, check.NonNegativeQuantity(*c.Capacity, field.NewPath("capacity"))...)
	}
	if old == nil {
		return errs
	}
	errs = append(errs, check.MetaUpdate(c, old)...)
	if !equality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(topology, c.NodeTopology, validation.FieldImmutableErrorMsg))
	}
	if c.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(class, c.StorageClassName, validation.FieldImmutableErrorMsg))
	}
	return errs
}

// topologyWarnings warns of deprecated node labels.
func topologyWarnings(s *metav1.LabelSelector, at *field.Path) []string {
	if s == nil {
		return nil
	}
	var out []string
	for i, r := range s.MatchExpressions {
		if message, ok := podspec.OldLabel(r.Key); ok {
			out = append(out, fmt.Sprintf("%s: %s is %s", at.Child("matchExpressions").Index(i).Child("key"), r.Key, message))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if message, ok := podspec.OldLabel(key); ok {
			out = append(out, fmt.Sprintf("%s: %s", at.Child("matchLabels").Child(key), message))
		}
	}
	return out
}
