package schedplugins

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
)

// topologyPlacement generates the placements of a PodGroup with a topology constraint: for each value of the node label that the constraint
// names, the nodes with this value. A group of which pods have nodes already stays in their domain. It only acts with the feature gates
// GenericWorkload and TopologyAwareWorkloadScheduling.
type topologyPlacement struct {
	cooperative
	handle framework.Handle
}

func newTopologyPlacement(h framework.Handle) framework.Plugin { return topologyPlacement{handle: h} }

func (topologyPlacement) Name() string { return "TopologyPlacementGenerator" }

// EventsToRegister registers for PodGroups, so that they are cached. No pod waits for an event of this plugin.
func (topologyPlacement) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{on(framework.PodGroup, framework.Add, nil)}, nil
}

// GeneratePlacements returns the parent placement for a group without a constraint. The placements are in the order of their names.
func (p topologyPlacement) GeneratePlacements(_ context.Context, _ framework.PodGroupCycleState, group framework.PodGroupInfo, parent *framework.Placement) (*framework.GeneratePlacementsResult, *framework.Status) {
	object, err := podGroup(p.handle, objects.Key{Namespace: group.GetNamespace(), Name: group.GetName()})
	switch {
	case err != nil:
		return nil, framework.AsStatus(err)
	case object == nil:
		return nil, framework.AsStatus(fmt.Errorf("podgroup.scheduling.k8s.io %q not found", group.GetName()))
	}
	constraints := object.Spec.SchedulingConstraints
	if constraints == nil || len(constraints.Topology) == 0 {
		return &framework.GeneratePlacementsResult{Placements: []*framework.Placement{parent}}, nil
	}
	key := constraints.Topology[0].Key
	cluster := p.handle.SnapshotSharedLister()
	state, err := cluster.PodGroupStates().Get(group.GetNamespace(), group.GetName())
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	required, err := domainOf(cluster.NodeInfos(), key, state.ScheduledPods())
	if err != nil {
		return nil, framework.AsStatus(fmt.Errorf("cannot determine domain for already scheduled pods: %w", err))
	}
	domains := map[string][]framework.NodeInfo{}
	for _, node := range parent.Nodes {
		if value, ok := node.Node().Labels[key]; ok && (required == nil || value == *required) {
			domains[value] = append(domains[value], node)
		}
	}
	out := &framework.GeneratePlacementsResult{}
	for _, value := range slices.Sorted(maps.Keys(domains)) {
		out.Placements = append(out.Placements, &framework.Placement{Name: value, Nodes: domains[value]})
	}
	return out, nil
}

// domainOf returns the value of the label on the nodes of all pods, nil without pods.
func domainOf(nodes framework.NodeInfoLister, key string, pods []*corev1.Pod) (*string, error) {
	var found *string
	for _, pod := range pods {
		node, err := nodes.Get(pod.Spec.NodeName)
		if err != nil {
			return nil, fmt.Errorf("getting node for pod %v: %w", klog.KObj(pod), err)
		}
		value, ok := node.Node().Labels[key]
		switch {
		case !ok:
			return nil, fmt.Errorf("no topology domain found for pod %v", klog.KObj(pod))
		case found != nil && *found != value:
			return nil, fmt.Errorf("more than 1 domain found for pod group: %v, %v", *found, value)
		}
		found = &value
	}
	return found, nil
}
