package schedplugins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// defaultPreemption reports whether a pod would fit without the pods of lower priority. It does not evict them.
type defaultPreemption struct {
	cooperative
	handle framework.Handle
}

func defaultPreemptionArgs() configv1.DefaultPreemptionArgs {
	percent, least := int32(10), int32(100)
	return configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: &percent, MinCandidateNodesAbsolute: &least}
}

func newDefaultPreemption(args configv1.DefaultPreemptionArgs, h framework.Handle) (framework.Plugin, error) {
	percent, least := args.MinCandidateNodesPercentage, args.MinCandidateNodesAbsolute
	switch {
	case percent != nil && (*percent < 0 || *percent > 100):
		return nil, fmt.Errorf("args: minCandidateNodesPercentage: Invalid value: %d: not in valid range [0, 100]", *percent)
	case least != nil && *least < 0:
		return nil, fmt.Errorf("args: minCandidateNodesAbsolute: Invalid value: %d: not in valid range [0, inf)", *least)
	case percent != nil && least != nil && *percent == 0 && *least == 0:
		return nil, fmt.Errorf("args: minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero")
	}
	return defaultPreemption{handle: h}, nil
}

func (defaultPreemption) Name() string { return "DefaultPreemption" }

const (
	noHelp    = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
	// wouldHelp is not a message of Kubernetes, whose plugin would have evicted the pods.
	wouldHelp = "node(s) would have room without pods of lower priority, which this scheduler does not evict"
)

func (p defaultPreemption) PostFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: not eligible due to preemptionPolicy=Never.")
	}
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	nodes, err := lister.List()
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	maybe, err := statuses.NodesForStatusCode(lister, framework.Unschedulable)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	counts := map[string]int{}
	if left := len(nodes) - len(maybe); left > 0 {
		counts[noHelp] = left
	}
	for _, n := range maybe {
		for _, reason := range p.without(ctx, state, pod, n) {
			counts[reason]++
		}
	}
	reasons := make([]string, 0, len(counts))
	for reason, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	return nil, framework.NewStatus(framework.Unschedulable,
		fmt.Sprintf("preemption: 0/%d nodes are available: %s.", len(nodes), strings.Join(reasons, ", ")))
}

// without returns why the pod does not fit even without the pods of lower priority on a node; if it fits, wouldHelp.
func (p defaultPreemption) without(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) []string {
	var lower []framework.PodInfo
	for _, other := range node.GetPods() {
		if helper.PodPriority(other.GetPod()) < helper.PodPriority(pod) {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return []string{noVictims}
	}
	state, node = state.Clone(), node.Snapshot()
	for _, other := range lower {
		if err := node.RemovePod(klog.Logger{}, other.GetPod()); err != nil {
			return []string{err.Error()}
		}
		if status := p.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, other, node); !status.IsSuccess() {
			return status.Reasons()
		}
	}
	if status := p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); !status.IsSuccess() {
		return status.Reasons()
	}
	return []string{wouldHelp}
}
