package builtin

import (
	"slices"
	"sync"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
)

// ResourcesWith returns every built-in resource of a cluster with these feature gates. Without any they are Resources. The slice is shared
// and must not be changed.
func ResourcesWith(g feature.Gates) []objects.Resource {
	if !g.GenericWorkload {
		return Resources()
	}
	workloads, topology := withWorkloads()
	if g.TopologyAwareWorkloadScheduling {
		return topology
	}
	return workloads
}

// withWorkloads returns the rows of a cluster with Workloads, and of one whose PodGroups have topology constraints, too.
var withWorkloads = sync.OnceValues(func() (workloads, topology []objects.Resource) {
	return workloadRows(feature.Gates{GenericWorkload: true}), workloadRows(feature.All)
})

func workloadRows(g feature.Gates) []objects.Resource {
	return append(slices.Clone(rows()), objects.Row(scheduling.Workloads(g)), objects.Row(scheduling.PodGroups(g)))
}

// withoutSchedulingGroups returns the rows of a cluster without the feature gate GenericWorkload: they drop the scheduling groups of pod
// specs, except in objects that have one since a time when the gate was on.
func withoutSchedulingGroups(rows []objects.Resource) []objects.Resource {
	rows = slices.Clone(rows)
	for i := range rows {
		prepare := rows[i].Prepare
		if _, _, has := podspec.Of(rows[i].New()); !has {
			continue
		}
		rows[i].Prepare = func(obj, old objects.Object) {
			spec, _, _ := podspec.Of(obj)
			before, _, _ := podspec.Of(old)
			if spec != nil && (before == nil || before.SchedulingGroup == nil) {
				spec.SchedulingGroup = nil
			}
			prepare(obj, old)
		}
	}
	return rows
}
