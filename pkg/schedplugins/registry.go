// Package schedplugins owns the scheduler plugins that minikctl has, a file each, and the list of them.
//
// A plugin meets k8s.io/kube-scheduler/framework: a type with Name and the extension points that it has; the engine
// finds them by type. Names, arguments, defaults, messages and scores are those of Kubernetes' plugins of the same name.
// One that also signs pods and is scheduler.NodeLocal is asked about a node only when the node has changed.
package schedplugins

import "github.com/minikctl/minikctl/pkg/scheduler"

// Registry is every plugin there is.
var Registry = scheduler.Registry{
	"DefaultBinder":                   bare(newDefaultBinder),
	"DefaultPreemption":               with(defaultPreemptionArgs, newDefaultPreemption),
	"DynamicResources":                with(defaultDynamicResources, newDynamicResources),
	"ImageLocality":                   bare(newImageLocality),
	"NodeAffinity":                    with(defaultNodeAffinity, newNodeAffinity),
	"NodeName":                        bare(newNodeName),
	"NodePorts":                       bare(newNodePorts),
	"NodeResourcesBalancedAllocation": with(defaultBalanced, newBalanced),
	"NodeResourcesFit":                with(defaultFit, newFit),
	"NodeUnschedulable":               bare(newNodeUnschedulable),
	"InterPodAffinity":                with(defaultInterPodAffinity, newInterPodAffinity),
	"PodTopologySpread":               with(defaultSpread, newPodTopologySpread),
	"PrioritySort":                    bare(newPrioritySort),
	"SchedulingGates":                 bare(newSchedulingGates),
	"TaintToleration":                 bare(newTaintToleration),
}
