package schedplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// candidate is a node on which a pod fits once the victims are gone.
type candidate struct {
	node       string
	victims    []*corev1.Pod // the most important first
	violations int           // how many of them are evicted in spite of a PodDisruptionBudget
}

// candidates searches the nodes on which evictions may help, until it has found enough. Candidates that violate no budget come first. If
// there are none it returns why each searched node is no candidate.
func (p *defaultPreemption) candidates(ctx context.Context, state framework.CycleState, pod *corev1.Pod, statuses framework.NodeToStatusReader, lister framework.NodeInfoLister) ([]candidate, map[string]*framework.Status, error) {
	nodes, err := statuses.NodesForStatusCode(lister, framework.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, nil, err
	}
	var budgets []*policyv1.PodDisruptionBudget
	if api, ok := p.handle.(scheduler.APIHandle); ok {
		budgets = api.Budgets()
	}
	enough := p.enough(len(nodes))
	first := p.offset % len(nodes)
	var kept, violating []candidate
	var errs []error
	failures := map[string]*framework.Status{}
	results := p.keptIn(state, budgets)
	for i := range nodes {
		if len(kept) > 0 && len(kept)+len(violating) >= enough {
			break
		}
		node := nodes[(first+i)%len(nodes)]
		p.offset = (first + i + 1) % len(nodes)
		found, status := p.victimsOn(ctx, results, state, pod, node, budgets)
		switch {
		case status.IsError():
			errs = append(errs, status.AsError())
			failures[node.Node().Name] = status
		case !status.IsSuccess():
			failures[node.Node().Name] = status
		case found.violations == 0:
			kept = append(kept, found)
		default:
			violating = append(violating, found)
		}
	}
	if found := append(kept, violating...); len(found) > 0 {
		return found[:min(len(found), enough)], nil, nil
	}
	return nil, failures, errors.Join(errs...)
}

// enough returns how many candidates end the search among n nodes. Kubernetes begins the search at a random node; here it continues behind the
// last searched one, so that runs can be repeated.
func (p *defaultPreemption) enough(n int) int {
	return min(n, max(n*int(*p.args.MinCandidateNodesPercentage)/100, int(*p.args.MinCandidateNodesAbsolute)))
}

// callExtenders lets the extenders that support preemption remove candidates and change victims.
func callExtenders(ctx context.Context, state framework.CycleState, extenders []framework.Extender, pod *corev1.Pod, found []candidate, lister framework.NodeInfoLister) ([]candidate, error) {
	for _, extender := range extenders {
		if !extender.SupportsPreemption() || !extender.IsInterested(pod) || len(found) == 0 {
			continue
		}
		offered := make(map[string]*extenderv1.Victims, len(found))
		for _, c := range found {
			offered[c.node] = &extenderv1.Victims{Pods: c.victims, NumPDBViolations: int64(c.violations)}
		}
		taken, err := callExtender(ctx, state, extender, pod, offered, lister)
		switch {
		case err != nil && extender.IsIgnorable():
			continue
		case err != nil:
			return nil, err
		}
		var left []candidate
		for _, c := range found {
			victims, ok := taken[c.node]
			switch {
			case !ok:
			case victims != nil && len(victims.Pods) > 0:
				left = append(left, candidate{c.node, victims.Pods, int(victims.NumPDBViolations)})
			case !extender.IsIgnorable():
				return nil, fmt.Errorf("expected at least one victim pod on node %q", c.node)
			}
		}
		found = left
	}
	return found, nil
}

func callExtender(ctx context.Context, state framework.CycleState, extender framework.Extender, pod *corev1.Pod, offered map[string]*extenderv1.Victims, lister framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	if own, ok := extender.(scheduler.PreemptionExtender); ok {
		return own.Preempt(ctx, state, pod, offered, lister)
	}
	return extender.ProcessPreemption(pod, offered, lister)
}

// best returns the candidate whose evictions do the least harm. Each criterion decides between those that are equal by the ones before it.
func best(found []candidate) candidate {
	return slices.MinFunc(found, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.violations, b.violations),
			cmp.Compare(helper.PodPriority(a.victims[0]), helper.PodPriority(b.victims[0])),
			cmp.Compare(a.priorities(), b.priorities()),
			cmp.Compare(len(a.victims), len(b.victims)),
			compareStart(b.firstStart(), a.firstStart()),
		)
	})
}

// priorities sums the victims' priorities, each raised so that it is not negative: more victims never count as less harm.
func (c candidate) priorities() (sum int64) {
	for _, v := range c.victims {
		sum += int64(helper.PodPriority(v)) + math.MaxInt32 + 1
	}
	return sum
}

// firstStart returns the earliest start of the victims of the highest priority.
func (c candidate) firstStart() *metav1.Time {
	first := c.victims[0].Status.StartTime
	for _, v := range c.victims {
		if helper.PodPriority(v) == helper.PodPriority(c.victims[0]) && compareStart(v.Status.StartTime, first) < 0 {
			first = v.Status.StartTime
		}
	}
	return first
}

// compareStart orders the starts of pods. A pod that has not started yet comes last.
func compareStart(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}
