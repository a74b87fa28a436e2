// Package feature owns Kubernetes' feature gates that a cluster can switch on: those of scheduling groups of pods. All of them are off by
// default, as in Kubernetes 1.36.
package feature

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Gates are the feature gates of a cluster. The zero value is Kubernetes' default.
type Gates struct {
	GenericWorkload                 bool // the resources Workload and PodGroup, and spec.schedulingGroup of pods
	GangScheduling                  bool // the scheduler plugin GangScheduling
	TopologyAwareWorkloadScheduling bool // placements of PodGroups, and their spec.schedulingConstraints
}

// All has every gate on.
var All = Gates{GenericWorkload: true, GangScheduling: true, TopologyAwareWorkloadScheduling: true}

// names returns the gates by their names.
func (g *Gates) names() map[string]*bool {
	return map[string]*bool{
		"GenericWorkload": &g.GenericWorkload, "GangScheduling": &g.GangScheduling,
		"TopologyAwareWorkloadScheduling": &g.TopologyAwareWorkloadScheduling,
	}
}

// Parse returns the gates of a map from names to whether the gate is on. Gates that need another one which is off are refused, as by
// Kubernetes, and so are names that minikctl does not have.
func Parse(on map[string]bool) (Gates, error) {
	var g Gates
	known := g.names()
	for _, name := range slices.Sorted(maps.Keys(on)) {
		gate, ok := known[name]
		if !ok {
			return Gates{}, fmt.Errorf("feature gate %q is not one of [%s]", name, strings.Join(slices.Sorted(maps.Keys(known)), " "))
		}
		*gate = on[name]
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if *known[name] && !g.GenericWorkload {
			return Gates{}, fmt.Errorf("the feature gate %s requires GenericWorkload", name)
		}
	}
	return g, nil
}
