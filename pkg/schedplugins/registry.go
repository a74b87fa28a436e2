// Package schedplugins owns the scheduler plugins, one in each file, and their registry. A plugin implements
// k8s.io/kube-scheduler/framework: it is a type with Name and some extension points, which the scheduler finds by type.
// Names, arguments, defaults, messages and scores are those of the Kubernetes plugins with the same names. The
// scheduler caches the results of a plugin that also signs pods and is scheduler.NodeLocal until the node changes, and those
// of a scheduler.Incremental one until a change that the plugin counts.
package schedplugins

import "github.com/minikctl/minikctl/pkg/scheduler"

// Registry holds the factories of all plugins by name.
var Registry = scheduler.Registry{
	"CEL":                             with(defaultCEL, newCEL),
	"CEL/*":                           with(defaultCEL, newCEL),
	"Coscheduling":                    with(defaultCoscheduling, newCoscheduling),
	"DefaultBinder":                   bare(newDefaultBinder),
	"DefaultPreemption":               with(defaultPreemptionArgs, newDefaultPreemption),
	"DynamicResources":                with(defaultDynamicResources, newDynamicResources),
	"GangScheduling":                  bare(newGangScheduling),
	"ImageLocality":                   bare(newImageLocality),
	"NodeDeclaredFeatures":            bare(newNodeDeclaredFeatures),
	"NodeAffinity":                    with(defaultNodeAffinity, newNodeAffinity),
	"NodeName":                        bare(newNodeName),
	"NodePorts":                       bare(newNodePorts),
	"NodeResourcesBalancedAllocation": with(defaultBalanced, newBalanced),
	"NodeResourcesFit":                with(defaultFit, newFit),
	"NodeUnschedulable":               bare(newNodeUnschedulable),
	"NodeVolumeLimits":                bare(newNodeVolumeLimits),
	"InterPodAffinity":                with(defaultInterPodAffinity, newInterPodAffinity),
	"PodGroupPodsCount":               bare(newPodGroupPodsCount),
	"PodTopologySpread":               with(defaultSpread, newPodTopologySpread),
	"PrioritySort":                    bare(newPrioritySort),
	"SchedulingGates":                 bare(newSchedulingGates),
	"TaintToleration":                 bare(newTaintToleration),
	"TopologyPlacementGenerator":      bare(newTopologyPlacement),
	"VolumeBinding":                   with(defaultVolumeBinding, newVolumeBinding),
	"VolumeRestrictions":              bare(newVolumeRestrictions),
	"VolumeZone":                      bare(newVolumeZone),
	"Wasm":                            newWasm,
	"Wasm/*":                          newWasm,
}
