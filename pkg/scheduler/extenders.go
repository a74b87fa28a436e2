package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// ExtenderHandle is implemented by every Handle of this scheduler.
type ExtenderHandle interface {
	// IgnoredResources returns the extended resources that extenders manage and that plugins must not check.
	IgnoredResources() []string
}

// PreemptionExtender is implemented by the extenders of every Handle of this scheduler.
type PreemptionExtender interface {
	framework.Extender
	// Preempt is ProcessPreemption with the context of the call and the state of the cycle, in which it records the call for the decision.
	Preempt(ctx context.Context, state framework.CycleState, pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error)
}

var (
	_ PreemptionExtender = (*extender)(nil)
	_ ExtenderHandle     = (*handle)(nil)
)

// Extenders implements framework.Handle.
func (h *handle) Extenders() []framework.Extender {
	var out []framework.Extender
	for _, x := range h.profile.setup.extenders {
		out = append(out, x)
	}
	return out
}

// IgnoredResources implements ExtenderHandle.
func (h *handle) IgnoredResources() []string {
	var out []string
	for _, x := range h.profile.setup.extenders {
		for _, r := range x.ManagedResources {
			if r.IgnoredByScheduler {
				out = append(out, r.Name)
			}
		}
	}
	return out
}

// preemptionCalls are the extenders' calls in a PostFilter plugin, in the cycle's state.
const preemptionCalls framework.StateKey = "minikctl.dev/extender-calls"

type extenderCalls []minikctl.ExtenderCall

// Clone implements framework.StateData.
func (c extenderCalls) Clone() framework.StateData { return c }

// Preempt implements PreemptionExtender.
func (x *extender) Preempt(ctx context.Context, state framework.CycleState, pod *corev1.Pod, victims map[string]*extenderv1.Victims, nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	began := wallClock.Now()
	left, err := x.preempt(ctx, pod, victims, nodes)
	state.Write(preemptionCalls, append(callsIn(state), x.called(ctx, "preempt", began, err, x.Ignorable)))
	return left, err
}

func callsIn(state framework.CycleState) extenderCalls {
	data, err := state.Read(preemptionCalls)
	if err != nil {
		return nil
	}
	return data.(extenderCalls)
}

// called returns the record of a call, and logs failures, at most one a minute. ignored is true if the attempt goes on after a failure.
func (x *extender) called(ctx context.Context, verb string, began time.Time, err error, ignored bool) minikctl.ExtenderCall {
	call := minikctl.ExtenderCall{Extender: x.URLPrefix, Verb: verb, Outcome: minikctl.Called, Took: wallClock.Since(began)}
	if err != nil {
		call.Outcome, call.Message = minikctl.Failed, err.Error()
		if ignored {
			call.Outcome = minikctl.Ignored
		}
		if x.site.mayLog() {
			slog.WarnContext(ctx, "call of a scheduler extender failed", "extender", x.URLPrefix, "verb", verb, "err", err)
		}
	}
	return call
}

// evaluates reports whether an extender filters or scores nodes for the pod: its results cannot be kept for other pods.
func (m *setup) evaluates(pod *corev1.Pod) bool {
	for _, x := range m.extenders {
		if (x.IsFilter() || x.IsPrioritizer()) && x.IsInterested(pod) {
			return true
		}
	}
	return false
}

// filterByExtenders lets the extenders filter the nodes that passed the plugins, one after the other.
func (p *profile) filterByExtenders(ctx context.Context, t *tracker, e *evaluation, pod *corev1.Pod) {
	for _, x := range p.setup.extenders {
		if e.failure != nil || e.feasible == 0 {
			return
		}
		if x.IsFilter() && x.IsInterested(pod) {
			e.filterByExtender(ctx, t, x, pod)
		}
	}
}

func (e *evaluation) filterByExtender(ctx context.Context, t *tracker, x *extender, pod *corev1.Pod) {
	nodes, indexes := e.feasibleNodes()
	began := wallClock.Now()
	t.enter(x.site)
	passed, failed, unresolvable, err := x.filter(ctx, pod, nodes)
	t.leave()
	e.calls = append(e.calls, x.called(ctx, "filter", began, err, x.Ignorable))
	if err != nil {
		if !x.Ignorable {
			e.failure = framework.AsStatus(err).WithPlugin(x.URLPrefix)
		}
		return
	}
	e.extenders = append(e.extenders, x.URLPrefix)
	left := make(map[framework.NodeInfo]bool, len(passed))
	for _, n := range passed {
		left[n] = true
	}
	for k, n := range nodes {
		if !left[n] {
			e.reject(indexes[k], x.status(n.Node().Name, failed, unresolvable))
		}
	}
}

// status returns the status of a node that did not pass the extender's filter. As in Kubernetes, evictions do not help on a node without a message.
func (x *extender) status(node string, failed, unresolvable extenderv1.FailedNodesMap) *framework.Status {
	status := framework.NewStatus(framework.UnschedulableAndUnresolvable)
	if message, ok := unresolvable[node]; ok {
		status = framework.NewStatus(framework.UnschedulableAndUnresolvable, message)
	} else if message, ok := failed[node]; ok {
		status = framework.NewStatus(framework.Unschedulable, message)
	}
	return status.WithPlugin(x.URLPrefix)
}

// reject sets the status of a node that had passed.
func (e *evaluation) reject(i int, status *framework.Status) {
	e.feasible--
	e.statuses[i] = status
}

// feasibleNodes returns the nodes that passed, and their indexes among the candidates.
func (e *evaluation) feasibleNodes() ([]framework.NodeInfo, []int) {
	nodes := make([]framework.NodeInfo, 0, e.feasible)
	indexes := make([]int, 0, e.feasible)
	for i, n := range e.candidates {
		if e.passed(i) {
			nodes, indexes = append(nodes, n), append(indexes, i)
		}
	}
	return nodes, indexes
}

// scoreByExtenders adds the scores of the extenders, which are called at the same time. An extender that fails scores no node. As in Kubernetes,
// none is called for a single node.
func (p *profile) scoreByExtenders(ctx context.Context, t *tracker, e *evaluation, pod *corev1.Pod, nodes []framework.NodeInfo, indexes []int) {
	var callees []*extender
	for _, x := range p.setup.extenders {
		if x.IsPrioritizer() && x.IsInterested(pod) {
			callees = append(callees, x)
		}
	}
	if len(callees) == 0 || len(nodes) < 2 {
		return
	}
	type result struct {
		scores map[string]int64
		call   minikctl.ExtenderCall
	}
	results := make([]result, len(callees))
	t.enter(callees[0].site) // the section has one site at a time; the calls have time-outs of their own
	// After the end of ctx, each call fails and is recorded as failed.
	parallelizer{len(callees), p.setup.metrics.goroutines}.Until(context.WithoutCancel(ctx), len(callees), func(i int) {
		x, began := callees[i], wallClock.Now()
		list, err := x.prioritize(ctx, pod, nodes)
		var scores map[string]int64
		if err == nil {
			scores, err = x.sums(list)
		}
		results[i] = result{scores, x.called(ctx, "prioritize", began, err, true)}
	}, "prioritizing_extender")
	t.leave()
	for i, x := range callees {
		e.calls = append(e.calls, results[i].call)
		if results[i].call.Outcome == minikctl.Called {
			e.addScores(x, results[i].scores, nodes, indexes)
		}
	}
}

// extenderScale converts the range of extenders' scores, 0 to 10, into that of plugins, 0 to 100.
const extenderScale = framework.MaxScore / extenderv1.MaxExtenderPriority

// maxExtenderScore keeps the sum of a node's scores from overflowing.
const maxExtenderScore = 1 << 50

// sums returns the sum of an extender's scores for each node. It is an error if one, with weight and scale, exceeds maxExtenderScore.
func (x *extender) sums(list extenderv1.HostPriorityList) (map[string]int64, error) {
	out := make(map[string]int64, len(list))
	for _, s := range list {
		if math.Abs(float64(out[s.Host])+float64(s.Score))*float64(x.Weight)*float64(extenderScale) > maxExtenderScore {
			return nil, fmt.Errorf("extender %q returns an invalid score %d for node %q", x.URLPrefix, s.Score, s.Host)
		}
		out[s.Host] += s.Score
	}
	return out, nil
}

// addScores adds an extender as a scorer. A node without a score has 0.
func (e *evaluation) addScores(x *extender, scores map[string]int64, nodes []framework.NodeInfo, indexes []int) {
	raw, final := make([]int64, len(e.totals)), make([]int64, len(e.totals))
	for k, node := range nodes {
		score := scores[node.Node().Name]
		raw[indexes[k]], final[indexes[k]] = score, score*x.Weight*extenderScale
	}
	e.scorers = append(e.scorers, scorer{extension: extension[framework.ScorePlugin]{site: x.site}, weight: x.Weight})
	e.raw, e.final = append(e.raw, raw), append(e.final, final)
}

// bindByExtender lets the extender that binds such pods bind this one. It returns false if there is none, or if it failed and may be ignored.
func (p *profile) bindByExtender(ctx context.Context, a *attempt) (status *framework.Status, done bool) {
	for _, x := range p.setup.extenders {
		if !x.IsBinder() || !x.IsInterested(a.assumed) {
			continue
		}
		began := wallClock.Now()
		err := x.bind(ctx, BindingFor(a.assumed, a.node))
		a.calls = append(a.calls, x.called(ctx, "bind", began, err, x.Ignorable))
		if err != nil && x.Ignorable {
			continue
		}
		return framework.AsStatus(err), true
	}
	return nil, false
}
