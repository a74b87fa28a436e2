package schedplugins

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// dryRun is a node, and the cycle's state, from which pods are removed to see whether a pod fits. Both are copies.
type dryRun struct {
	handle framework.Handle
	state  framework.CycleState
	pod    *corev1.Pod
	node   framework.NodeInfo
}

func (t dryRun) remove(ctx context.Context, other framework.PodInfo) *framework.Status {
	if err := t.node.RemovePod(klog.Logger{}, other.GetPod()); err != nil {
		return framework.AsStatus(err)
	}
	return failure(t.handle.RunPreFilterExtensionRemovePod(ctx, t.state, t.pod, other, t.node))
}

func (t dryRun) add(ctx context.Context, other framework.PodInfo) *framework.Status {
	t.node.AddPodInfo(other)
	return failure(t.handle.RunPreFilterExtensionAddPod(ctx, t.state, t.pod, other, t.node))
}

// failure returns an error status for any status but success.
func failure(status *framework.Status) *framework.Status {
	if status.IsSuccess() {
		return nil
	}
	return framework.AsStatus(status.AsError())
}

func (t dryRun) fits(ctx context.Context) *framework.Status {
	return t.handle.RunFilterPluginsWithNominatedPods(ctx, t.state, t.pod, t.node)
}

// selectVictims returns the pods whose eviction makes room for the pod on a node. It removes all pods of lower priority, and then
// reprieves as many as fit beside the pod: first those whose eviction violates a budget, and the more important before the others. A
// status that is not a success is the reason why the node is no candidate.
func (p *defaultPreemption) selectVictims(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo, budgets []*policyv1.PodDisruptionBudget) (candidate, *framework.Status) {
	t := dryRun{p.handle, state, pod, node}
	var lower []framework.PodInfo
	for _, other := range node.GetPods() {
		if mayPreempt(pod, other) {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return candidate{}, framework.NewStatus(framework.UnschedulableAndUnresolvable, noVictims)
	}
	for _, other := range lower {
		if status := t.remove(ctx, other); status != nil {
			return candidate{}, status
		}
	}
	if status := t.fits(ctx); !status.IsSuccess() {
		return candidate{}, status
	}
	slices.SortStableFunc(lower, byImportance)
	protected, others := splitByBudgets(lower, budgets)
	victims, status := t.reprieve(ctx, protected)
	if status != nil {
		return candidate{}, status
	}
	violations := len(victims)
	more, status := t.reprieve(ctx, others)
	if status != nil {
		return candidate{}, status
	}
	victims = append(victims, more...)
	if len(victims) == 0 {
		return candidate{}, framework.NewStatus(framework.Error, "expected at least one victim pod on node \""+node.Node().Name+"\"")
	}
	slices.SortStableFunc(victims, byImportance)
	out := candidate{node: node.Node().Name, violations: violations}
	for _, v := range victims {
		out.victims = append(out.victims, v.GetPod())
	}
	return out, nil
}

// reprieve puts removed pods back, one after the other, and returns those with which the pod does not fit.
func (t dryRun) reprieve(ctx context.Context, removed []framework.PodInfo) (victims []framework.PodInfo, status *framework.Status) {
	for _, other := range removed {
		if status := t.add(ctx, other); status != nil {
			return nil, status
		}
		if t.fits(ctx).IsSuccess() {
			continue
		}
		if status := t.remove(ctx, other); status != nil {
			return nil, status
		}
		victims = append(victims, other)
	}
	return victims, nil
}

// byImportance orders pods by priority, the highest first, and then by their start, the earliest first.
func byImportance(a, b framework.PodInfo) int {
	return cmp.Or(
		cmp.Compare(helper.PodPriority(b.GetPod()), helper.PodPriority(a.GetPod())),
		compareStart(a.GetPod().Status.StartTime, b.GetPod().Status.StartTime),
	)
}

// splitByBudgets separates the pods whose eviction would exceed the disruptions that a budget allows, if all pods before them are evicted, too.
func splitByBudgets(pods []framework.PodInfo, budgets []*policyv1.PodDisruptionBudget) (violating, others []framework.PodInfo) {
	selectors := make([]labels.Selector, len(budgets))
	allowed := make([]int32, len(budgets))
	for i, b := range budgets {
		allowed[i] = b.Status.DisruptionsAllowed
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !selector.Empty() {
			selectors[i] = selector // an invalid or empty selector selects no pod
		}
	}
	for _, info := range pods {
		pod, exceeded := info.GetPod(), false
		for i, b := range budgets {
			if selectors[i] == nil || b.Namespace != pod.Namespace || len(pod.Labels) == 0 || !selectors[i].Matches(labels.Set(pod.Labels)) {
				continue
			}
			if _, counted := b.Status.DisruptedPods[pod.Name]; counted {
				continue // the API server has allowed this disruption already
			}
			allowed[i]--
			exceeded = exceeded || allowed[i] < 0
		}
		if exceeded {
			violating = append(violating, info)
		} else {
			others = append(others, info)
		}
	}
	return violating, others
}
