package resource

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	sliceDoc = resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	poolDoc  = resourcev1.ResourcePool{}.SwaggerDoc()
)

// ResourceSlices is the row of ResourceSlice.
var ResourceSlices = objects.Def[*resourcev1.ResourceSlice]{
	Names:          objects.Names{Group: group, Version: version, Kind: "ResourceSlice", Plural: "resourceslices", Cluster: true},
	New:            func() *resourcev1.ResourceSlice { return &resourcev1.ResourceSlice{} },
	ReturnsDeleted: true,
	NewList:        func() runtime.Object { return &resourcev1.ResourceSliceList{} },
	Default:        defaultSlice,
	Prepare:        prepareSlice,
	Validate:       validateSlice,
	Warnings:       sliceWarnings,
	Columns: []objects.Column[*resourcev1.ResourceSlice]{
		objects.NameColumn[*resourcev1.ResourceSlice](),
		{Name: "Node", Description: sliceDoc["nodeName"], Cell: func(s *resourcev1.ResourceSlice, _ time.Time) any { return node(s) }},
		{Name: "Driver", Description: sliceDoc["driver"], Cell: func(s *resourcev1.ResourceSlice, _ time.Time) any { return s.Spec.Driver }},
		{Name: "Pool", Description: poolDoc["name"], Cell: func(s *resourcev1.ResourceSlice, _ time.Time) any { return s.Spec.Pool.Name }},
		objects.AgeColumn[*resourcev1.ResourceSlice](),
	},
	Selectable: map[string]func(*resourcev1.ResourceSlice) string{
		resourcev1.ResourceSliceSelectorNodeName: node,
		resourcev1.ResourceSliceSelectorDriver:   func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
	},
	Unselectable: "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: %s",
}

func node(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// defaultSlice does not set the time of taints: admission does, which has a clock.
func defaultSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		mappings := s.Spec.Devices[i].NodeAllocatableResourceMappings
		for name, m := range mappings {
			if m.AllocationMultiplier == nil {
				m.AllocationMultiplier = resource.NewQuantity(1, resource.DecimalSI)
				mappings[name] = m
			}
		}
	}
}

// prepareSlice drops fields of disabled features, unless the old object uses them.
func prepareSlice(s, old *resourcev1.ResourceSlice) {
	if !hasMappings(old) {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].NodeAllocatableResourceMappings = nil
		}
	}
	if old == nil || !hasLists(&old.Spec) {
		dropLists(s)
	}
	if old == nil {
		s.Generation = 1
		return
	}
	check.Generation(s, old, func() bool { return !check.Same(&s.Spec, &old.Spec) })
}

func hasMappings(s *resourcev1.ResourceSlice) bool {
	if s == nil {
		return false
	}
	for i := range s.Spec.Devices {
		if len(s.Spec.Devices[i].NodeAllocatableResourceMappings) > 0 {
			return true
		}
	}
	return false
}

func isList(a resourcev1.DeviceAttribute) bool {
	return a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil
}

func hasLists(s *resourcev1.ResourceSliceSpec) bool {
	for i := range s.Devices {
		for _, a := range s.Devices[i].Attributes {
			if isList(a) {
				return true
			}
		}
	}
	return false
}

func dropLists(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		attributes := s.Spec.Devices[i].Attributes
		for name, a := range attributes {
			if isList(a) {
				a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
				attributes[name] = a
			}
		}
	}
}

func sliceWarnings(s, _ *resourcev1.ResourceSlice) []string {
	if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", s.Spec.Driver)}
}
