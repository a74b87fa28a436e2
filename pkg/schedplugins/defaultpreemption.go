package schedplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	helper "k8s.io/component-helpers/scheduling/corev1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// defaultPreemption evicts pods of lower priority from a node, so that a pod that fits on no node fits there, and nominates the pod to
// this node. PostFilter chooses node and victims; the evictions run beside the scheduling loop, and PreEnqueue keeps the pod from being tried
// again meanwhile. It follows Kubernetes' plugin of this name with asynchronous preemption (KEP-4832).
type defaultPreemption struct {
	cooperative
	handle    framework.Handle
	args      configv1.DefaultPreemptionArgs
	evictions *evictions
	offset    int // of the node at which the next search begins
}

func defaultPreemptionArgs() configv1.DefaultPreemptionArgs {
	return configv1.DefaultPreemptionArgs{MinCandidateNodesPercentage: new(int32(10)), MinCandidateNodesAbsolute: new(int32(100))}
}

func newDefaultPreemption(args configv1.DefaultPreemptionArgs, h framework.Handle) (framework.Plugin, error) {
	defaults := defaultPreemptionArgs()
	if args.MinCandidateNodesPercentage == nil {
		args.MinCandidateNodesPercentage = defaults.MinCandidateNodesPercentage
	}
	if args.MinCandidateNodesAbsolute == nil {
		args.MinCandidateNodesAbsolute = defaults.MinCandidateNodesAbsolute
	}
	percent, least := *args.MinCandidateNodesPercentage, *args.MinCandidateNodesAbsolute
	switch {
	case percent < 0 || percent > 100:
		return nil, field.Invalid(field.NewPath("minCandidateNodesPercentage"), percent, "not in valid range [0, 100]")
	case least < 0:
		return nil, field.Invalid(field.NewPath("minCandidateNodesAbsolute"), least, "not in valid range [0, inf)")
	case percent == 0 && least == 0:
		return nil, errors.New("minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero")
	}
	return &defaultPreemption{handle: h, args: args, evictions: newEvictions(h)}, nil
}

func (*defaultPreemption) Name() string { return "DefaultPreemption" }

// PreEnqueue gates a pod while its victims are being evicted.
func (p *defaultPreemption) PreEnqueue(_ context.Context, pod *corev1.Pod) *framework.Status {
	if p.evictions.gate(pod) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
	}
	return nil
}

// EventsToRegister returns no events: the end of the evictions activates a pod that was gated meanwhile.
func (*defaultPreemption) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return nil, nil
}

const (
	noHelp    = "Preemption is not helpful for scheduling"
	noVictims = "No preemption victims found for incoming pod"
)

// PostFilter chooses the node with the least important victims, begins to evict them, and nominates the pod to the node.
func (p *defaultPreemption) PostFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	if reason := cmp.Or(p.inPlacement(pod), p.notEligible(lister, pod, statuses)); reason != "" {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: "+reason)
	}
	found, failures, err := p.candidates(ctx, state, pod, statuses, lister)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(found) == 0 {
		message, err := noCandidates(lister, failures)
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		return nominate(""), framework.NewStatus(framework.Unschedulable, message)
	}
	if found, err = callExtenders(ctx, state, p.handle.Extenders(), pod, found, lister); err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(found) == 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "preemption: no candidate node for preemption")
	}
	chosen := best(found)
	state.Write(scheduler.PreemptionState, &scheduler.Preemption{Node: chosen.node, Victims: chosen.victims, Violations: chosen.violations})
	p.evictions.start(pod, chosen)
	return nominate(chosen.node), nil
}

func nominate(node string) *framework.PostFilterResult {
	return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: node, NominatingMode: framework.ModeOverride}}
}

// notEligible returns why the pod may not preempt others, or "": its policy is Never, or its earlier victims have not ended yet.
func (p *defaultPreemption) notEligible(lister framework.NodeInfoLister, pod *corev1.Pod, statuses framework.NodeToStatusReader) string {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	nominated := pod.Status.NominatedNodeName
	if nominated == "" || statuses.Get(nominated).Code() == framework.UnschedulableAndUnresolvable {
		return ""
	}
	node, err := lister.Get(nominated)
	if err != nil {
		return "" // the node is gone
	}
	for _, other := range node.GetPods() {
		if mayPreempt(pod, other) && endsByPreemption(other.GetPod()) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// inPlacement returns why a pod whose group has scheduling constraints preempts none: each of the group's placements would.
func (p *defaultPreemption) inPlacement(pod *corev1.Pod) string {
	key, grouped := podref.PodGroup(pod)
	if features, ok := p.handle.(scheduler.FeatureHandle); !grouped || !ok || !features.Features().TopologyAwareWorkloadScheduling {
		return ""
	}
	group, err := podGroup(p.handle, key)
	switch {
	case err != nil || group == nil:
		return "pod group for pod not found"
	case group.Spec.SchedulingConstraints != nil:
		return "not eligible due to placement-based pod group scheduling limitation"
	}
	return ""
}

// mayPreempt reports whether the priority of pod is higher than that of other.
func mayPreempt(pod *corev1.Pod, other framework.PodInfo) bool {
	return helper.PodPriority(other.GetPod()) < helper.PodPriority(pod)
}

// endsByPreemption reports whether a scheduler has evicted the pod.
func endsByPreemption(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// noCandidates formats why preemption helps on no node. Nodes without a status were not searched, since no eviction makes them fit.
func noCandidates(lister framework.NodeInfoLister, failures map[string]*framework.Status) (string, error) {
	nodes, err := lister.List()
	if err != nil {
		return "", err
	}
	counts := map[string]int{}
	for _, status := range failures {
		for _, reason := range status.Reasons() {
			counts[reason]++
		}
	}
	if left := len(nodes) - len(failures); left > 0 {
		counts[noHelp] = left
	}
	reasons := make([]string, 0, len(counts))
	for reason, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("preemption: 0/%d nodes are available: %s.", len(nodes), strings.Join(reasons, ", ")), nil
}
