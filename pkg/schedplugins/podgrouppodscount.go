package schedplugins

import (
	"context"
	"errors"

	"k8s.io/kube-scheduler/framework"
)

// podGroupPodsCount prefers placements in which more pods of a PodGroup have a node. It only acts with the feature gates GenericWorkload and
// TopologyAwareWorkloadScheduling.
type podGroupPodsCount struct {
	cooperative
	handle framework.Handle
}

func newPodGroupPodsCount(h framework.Handle) framework.Plugin { return podGroupPodsCount{handle: h} }

func (podGroupPodsCount) Name() string { return "PodGroupPodsCount" }

// EventsToRegister returns no events: the plugin rejects no pod.
func (podGroupPodsCount) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return nil, nil
}

// ScorePlacement counts the pods of the group that have a node, and those that get one in the placement. The former make the difference
// between placements smaller.
func (p podGroupPodsCount) ScorePlacement(_ context.Context, _ framework.PodGroupCycleState, group framework.PodGroupInfo, placement *framework.PodGroupAssignments) (int64, *framework.Status) {
	state, err := p.handle.SnapshotSharedLister().PodGroupStates().Get(group.GetNamespace(), group.GetName())
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	return int64(state.ScheduledPodsCount() + len(placement.ProposedAssignments)), nil
}

func (p podGroupPodsCount) PlacementScoreExtensions() framework.PlacementScoreExtensions { return p }

// NormalizePlacementScore scales the counts so that the greatest is the highest score. The lowest count isn't scaled to the lowest score, which
// would turn a small difference into a great one.
func (podGroupPodsCount) NormalizePlacementScore(_ context.Context, _ framework.PodGroupCycleState, _ framework.PodGroupInfo, scores []framework.PlacementScore) *framework.Status {
	var most int64
	for _, s := range scores {
		most = max(most, s.Score)
	}
	if most == 0 {
		return framework.AsStatus(errors.New("no pods from pod group are assigned to any of the candidate placements"))
	}
	for i := range scores {
		scores[i].Score = framework.MinScore + scores[i].Score*(framework.MaxScore-framework.MinScore)/most
	}
	return nil
}
