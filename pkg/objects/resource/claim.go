// Package resource holds the rows of the group resource.k8s.io: devices (slices), their classes,
// and claims with their templates.
//
// Fields of feature gates that are off by default are dropped: list attributes, and node resources in slices.
// Admission authorizes admin access and allocations.
package resource

import (
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

const (
	group   = "resource.k8s.io"
	version = "v1"
)

// ResourceClaims is the row of ResourceClaim.
var ResourceClaims = objects.Def[*resourcev1.ResourceClaim]{
	Names:          objects.Names{Group: group, Version: version, Kind: "ResourceClaim", Plural: "resourceclaims"},
	New:            func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} },
	ReturnsDeleted: true,
	Controller:     "resource-claim-controller",
	NewList:        func() runtime.Object { return &resourcev1.ResourceClaimList{} },
	Default: func(c *resourcev1.ResourceClaim) {
		defaultClaim(&c.Spec)
		if c.Status.Allocation != nil {
			for i := range c.Status.Allocation.Devices.Results {
				defaultTolerations(c.Status.Allocation.Devices.Results[i].Tolerations)
			}
		}
	},
	Prepare:  prepareClaim,
	Validate: validateClaim,
	Columns: []objects.Column[*resourcev1.ResourceClaim]{
		objects.NameColumn[*resourcev1.ResourceClaim](),
		{Name: "State", Description: "A summary of the current state (allocated, pending, reserved, etc.).",
			Cell: func(c *resourcev1.ResourceClaim, _ time.Time) any { return state(c) }},
		objects.AgeColumn[*resourcev1.ResourceClaim](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*resourcev1.ResourceClaim]{
		Prepare:  prepareClaimStatus,
		Validate: validateClaimStatus,
		Reset:    []string{"metadata", "spec"},
	},
}

func defaultClaim(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			defaultCount(&r.Exactly.AllocationMode, &r.Exactly.Count)
			defaultTolerations(r.Exactly.Tolerations)
		}
		for j := range r.FirstAvailable {
			defaultCount(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
			defaultTolerations(r.FirstAvailable[j].Tolerations)
		}
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}

// defaultCount sets the allocation mode ExactCount and the count 1.
func defaultCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func prepareClaim(c, old *resourcev1.ResourceClaim) {
	c.Status = resourcev1.ResourceClaimStatus{}
	if old != nil {
		c.Status = old.Status
	}
}

// prepareClaimStatus also drops the status of devices that are no longer allocated.
func prepareClaimStatus(c, old *resourcev1.ResourceClaim) {
	c.Spec = old.Spec
	metav1.ResetObjectMetaForStatus(&c.ObjectMeta, &old.ObjectMeta)
	gone := allocated(old.Status.Allocation)
	for id := range allocated(c.Status.Allocation) {
		delete(gone, id)
	}
	c.Status.Devices = slices.DeleteFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool { return gone[idOf(&d)] })
	if len(c.Status.Devices) == 0 {
		c.Status.Devices = nil
	}
}

func validateClaim(c, old *resourcev1.ResourceClaim) field.ErrorList {
	errs := check.Meta(c, true, validation.NameIsDNSSubdomain)
	if old == nil {
		return append(errs, validateClaimSpec(&c.Spec, check.Spec)...)
	}
	errs = append(errs, check.MetaUpdate(c, old)...)
	return append(errs, check.ImmutableShown(c.Spec, old.Spec, check.Spec)...)
}

// state formats the progress of a claim.
func state(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation == nil && c.DeletionTimestamp == nil:
		states = append(states, "pending")
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	}
	return strings.Join(states, ",")
}
