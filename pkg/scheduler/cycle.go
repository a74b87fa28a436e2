package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// decide chooses the node for a pod. It is a function of the snapshot, the pod and the profile's plugins. e is the result
// of filtering and scoring: made by evaluate, or kept in the memo from an earlier pod of the same signature and updated.
// draw chooses among n equally good nodes.
func (p *profile) decide(ctx context.Context, t *tracker, cluster *snapshot, pod *corev1.Pod, e *evaluation, draw func(n int) int) decision {
	d := decision{evaluation: e, cluster: cluster, nodes: len(cluster.candidates())}
	switch {
	case e.failure != nil:
		d.status = e.failure
	case e.feasible == 0:
		d.status = framework.NewStatus(framework.Unschedulable)
	default:
		winner := 0
		if ties := e.best.ties(); ties > 1 {
			winner = draw(ties)
		}
		d.node = e.candidates[e.best.winner(winner)]
		return d
	}
	if d.status.IsRejected() && d.nodes > 0 {
		d.postFilter(ctx, t, p, cluster, pod)
	}
	return d
}

// decision is the outcome of a cycle: a node, or why there is none.
type decision struct {
	*evaluation
	cluster           *snapshot
	node              *nodeInfo
	nodes             int
	status            *framework.Status         // nil when there is a node
	nominating        *framework.NominatingInfo // what the PostFilter plugins nominated
	postFilterMessage string                    // the reasons of the PostFilter plugins
	preemption        *Preemption               // nil: no pod is evicted
	preemptionCalls   []minikctl.ExtenderCall   // of the PostFilter plugins
	preempts          bool                      // DefaultPreemption was among them
}

// evaluation is the result of filtering and scoring the candidates for one pod. Slices are indexed by the node's index among the
// candidates; step and epoch are the snapshot's.
type evaluation struct {
	candidates []*nodeInfo
	within     *nodeSet // the placement that they are; nil: they are all nodes of the snapshot

	state            *cycleState
	failure          *framework.Status // PreFilter rejected the pod, or a plugin failed
	preFilterMessage string            // of the PreFilter plugin that rejected the pod
	excluded         *framework.Status // the status of nodes that a PreFilterResult excludes

	statuses  []*framework.Status // nil: the node passed
	filtered  []bool              // the node was filtered
	evaluated int
	feasible  int

	filters   []extension[framework.FilterPlugin] // filters and scorers leave out the plugins that skip the pod
	extenders []string                            // those that filtered
	calls     []minikctl.ExtenderCall
	scorers   []scorer
	raw       [][]int64
	final     [][]int64 // normalised and weighted
	totals    []int64
	best      tournament
	scored    bool

	step, epoch uint64
	nominations uint64 // the nominator's step
	scratch     *updateScratch
	listed      []int                   // the indexes of the nodes that passed; empty: not listed yet
	list        framework.NodeScoreList // these nodes, with the scores at which normalise works
	// rejections and reported are computed at their first use and dropped when a status changes. Decisions share
	// reported.
	rejections []rejection
	reported   []minikctl.Rejection
	// The names are those of the Filter plugins that were run, and of the plugins that skipped the pod. Decisions share them.
	filterNames, skippedFilters, skippedScores []string
}

// indexOf returns the index of a node among the candidates, -1 if it is none of them.
func (e *evaluation) indexOf(n *nodeInfo) int {
	if e.within == nil {
		return n.index
	}
	if at, ok := e.within.at[n]; ok {
		return at
	}
	return -1
}

// evaluate filters and scores all nodes. state is new, and filtered is called between the two.
func (p *profile) evaluate(ctx context.Context, t *tracker, cluster *snapshot, pod *corev1.Pod, state *cycleState, filtered func()) *evaluation {
	e := &evaluation{candidates: cluster.candidates(), within: cluster.within, state: state, step: cluster.step, epoch: cluster.epoch, nominations: p.nominator.step()}
	if lacks := p.registry.missing(pod); lacks != "" {
		e.preFilterMessage = lacks
		e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable, lacks)
		return e
	}
	n := len(e.candidates)
	if n == 0 {
		e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable).WithError(errNoNodes)
		return e
	}
	began := t.times.now()
	allowed := p.runPreFilter(ctx, t, e, cluster, pod)
	t.leave()
	t.times.ran("PreFilter", began, e.failure)
	if e.failure != nil {
		return e
	}
	e.statuses, e.filtered = make([]*framework.Status, n), make([]bool, n)
	p.filterAll(ctx, t, e, cluster, pod, allowed)
	filtered()
	if e.failure == nil && e.feasible > 0 {
		p.scoreAll(ctx, t, e, pod)
	}
	return e
}

// runPreFilter runs the PreFilter plugins and returns the nodes that they leave, nil for all. The caller leaves the site of the last one.
func (p *profile) runPreFilter(ctx context.Context, t *tracker, e *evaluation, cluster *snapshot, pod *corev1.Pod) sets.Set[string] {
	nodes, _ := cluster.List()
	var allowed *framework.PreFilterResult
	skip, limiting := sets.New[string](), sets.New[string]()
	for _, plugin := range p.preFilter {
		t.enter(plugin.site)
		result, status := plugin.plugin.PreFilter(ctx, e.state, pod, nodes)
		t.returned(plugin.site, status)
		switch {
		case status.IsSkip():
			skip.Insert(plugin.name)
			continue
		case status.IsRejected():
			e.preFilterMessage, e.failure = status.Message(), status.WithPlugin(plugin.name)
			return nil
		case !status.IsSuccess():
			e.failure = plugin.failed(status)
			return nil
		}
		if !result.AllNodes() {
			limiting.Insert(plugin.name)
		}
		if allowed = allowed.Merge(result); !allowed.AllNodes() && len(allowed.NodeNames) == 0 {
			e.preFilterMessage = fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", sets.List(limiting))
			if len(limiting) == 1 {
				e.preFilterMessage = fmt.Sprintf("node(s) didn't satisfy plugin %v", plugin.name)
			}
			e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable, e.preFilterMessage).WithPlugin(plugin.name)
			return nil
		}
	}
	e.state.SetSkipFilterPlugins(skip)
	e.filters = p.filtersFor(e.state)
	if allowed.AllNodes() {
		return nil
	}
	e.excluded = framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(limiting)))
	return allowed.NodeNames
}

// filterAll filters the nodes, all of them or until enough have passed.
func (p *profile) filterAll(ctx context.Context, t *tracker, e *evaluation, cluster *snapshot, pod *corev1.Pod, allowed sets.Set[string]) {
	var nodes []*nodeInfo
	for _, n := range e.candidates {
		if allowed == nil || allowed.Has(n.node.Name) {
			nodes = append(nodes, n)
		}
	}
	began := t.times.now()
	if p.filterNominated(ctx, t, e, cluster, pod, allowed) {
		t.times.ran(filterPoint, began, nil)
		return
	}
	want := numFeasibleNodesToFind(p.percentage, len(nodes), e.state.alone)
	first := 0
	if want < len(nodes) {
		first = cluster.offset % len(nodes)
	}
	const chunk = 128
	for done := 0; done < len(nodes) && e.feasible < want && e.failure == nil; {
		size := min(chunk, len(nodes)-done)
		statuses := p.filterSome(ctx, t, e, pod, nodes, first+done, size)
		for i, v := range statuses {
			n := nodes[(first+done+i)%len(nodes)]
			if v.IsError() {
				e.failure = v
				break
			}
			if v.IsSuccess() && e.feasible == want {
				size = i // enough nodes pass: the rest of the chunk does not count
				break
			}
			e.setStatus(e.indexOf(n), v)
		}
		done += size
		cluster.offset = (first + done) % len(nodes)
	}
	t.times.ran(filterPoint, began, e.failure)
	p.filterByExtenders(ctx, t, e, pod)
}

// filterNominated filters the node that the pod is nominated to, and reports whether it passes. If so, the other nodes
// are not filtered.
func (p *profile) filterNominated(ctx context.Context, t *tracker, e *evaluation, cluster *snapshot, pod *corev1.Pod, allowed sets.Set[string]) bool {
	n, ok := cluster.byName[pod.Status.NominatedNodeName]
	if !ok || n.node == nil || e.indexOf(n) < 0 || allowed != nil && !allowed.Has(n.node.Name) {
		return false
	}
	if !p.runFilterWithNominated(ctx, t, e.filters, e.state, pod, n).IsSuccess() {
		return false
	}
	at := e.indexOf(n)
	e.setStatus(at, nil)
	if p.filterByExtenders(ctx, t, e, pod); e.feasible == 1 && e.failure == nil {
		return true
	}
	e.statuses[at], e.filtered[at] = nil, false
	e.evaluated, e.feasible, e.failure, e.extenders = 0, 0, nil, nil
	return false
}

// setStatus notes what the Filter plugins returned for a node.
func (e *evaluation) setStatus(i int, v *framework.Status) {
	if !e.filtered[i] {
		e.evaluated++
		e.filtered[i] = true
	}
	if v.IsSuccess() {
		v = nil
		e.feasible++
	}
	e.statuses[i] = v
}

func (e *evaluation) passed(i int) bool { return e.filtered[i] && e.statuses[i] == nil }

// filterSome filters size nodes from index first on. After the last node it continues with the first.
func (p *profile) filterSome(ctx context.Context, t *tracker, e *evaluation, pod *corev1.Pod, nodes []*nodeInfo, first, size int) []*framework.Status {
	statuses := make([]*framework.Status, size)
	if !p.nominator.empty() {
		for i := range size {
			statuses[i] = p.runFilterWithNominated(ctx, t, e.filters, e.state, pod, nodes[(first+i)%len(nodes)])
		}
		return statuses
	}
	e.filterBy(ctx, t, e.filters, pod, statuses, func(i int) *nodeInfo { return nodes[(first+i)%len(nodes)] })
	return statuses
}

// filterBy sets the statuses of the nodes that are nil. Each plugin filters all nodes that those before it passed, which takes less than to
// change the plugin for each node.
func (e *evaluation) filterBy(ctx context.Context, t *tracker, plugins []extension[framework.FilterPlugin], pod *corev1.Pod, statuses []*framework.Status, node func(i int) *nodeInfo) {
	for _, plugin := range plugins {
		t.enter(plugin.site)
		calls := 0
		for i := range statuses {
			if statuses[i] == nil {
				calls++
				statuses[i] = plugin.filterStatus(plugin.plugin.Filter(ctx, e.state, pod, node(i)))
				t.step()
			}
		}
		t.count(plugin.site, calls)
	}
	t.leave()
}

// runFilter runs Filter plugins on one node until one rejects it. The caller leaves the site of the last one.
func runFilter(ctx context.Context, t *tracker, plugins []extension[framework.FilterPlugin], state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	for _, plugin := range plugins {
		t.enter(plugin.site)
		status := plugin.plugin.Filter(ctx, state, pod, node)
		t.count(plugin.site, 1)
		if status = plugin.filterStatus(status); status != nil {
			return status
		}
	}
	return nil
}

// filterStatus returns what a Filter plugin's status means for the node: nil if it passes.
func (s *site) filterStatus(status *framework.Status) *framework.Status {
	switch {
	case status.IsSuccess():
		return nil
	case !status.IsRejected():
		return s.failed(status)
	case status.Plugin() == s.name:
		return status // not written again: a plugin may return one status for many nodes
	}
	return status.WithPlugin(s.name)
}

// filtersFor returns the Filter plugins that do not skip the pod.
func (p *profile) filtersFor(state framework.CycleState) []extension[framework.FilterPlugin] {
	skip := state.GetSkipFilterPlugins()
	return slices.DeleteFunc(slices.Clone(p.filter), func(f extension[framework.FilterPlugin]) bool { return skip.Has(f.name) })
}

// runExtensions calls f for the extensions of the PreFilter plugins that did not skip.
func (p *profile) runExtensions(t *tracker, state framework.CycleState, f func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, plugin := range p.preFilter {
		if state.GetSkipFilterPlugins().Has(plugin.name) {
			continue
		}
		t.enter(plugin.site)
		var status *framework.Status
		if e := plugin.plugin.PreFilterExtensions(); e != nil {
			status = f(e)
		}
		t.leave()
		if !status.IsSuccess() {
			return framework.AsStatus(fmt.Errorf("running PreFilterExtensions plugin %q: %w", plugin.name, status.AsError())).WithPlugin(plugin.name)
		}
	}
	return nil
}

// failed returns the status of an attempt that the plugin ended with an error.
func (s *site) failed(status *framework.Status) *framework.Status {
	return framework.AsStatus(fmt.Errorf("running %s plugin %q: %w", s.point, s.name, status.AsError())).WithPlugin(s.name)
}

// minFeasibleNodesToFind is the lowest number of feasible nodes to find, however small percentageOfNodesToScore is.
const minFeasibleNodesToFind = 100

// numFeasibleNodesToFind returns how many of n nodes must pass before filtering stops. Without a percentage all nodes are filtered: the
// memo keeps the cost small, and the best node is found. Only the evaluation of a pod alone, which the memo cannot keep, stops where
// Kubernetes' does by default.
func numFeasibleNodesToFind(percentage int32, n int, alone bool) int {
	if percentage == 0 && alone {
		percentage = max(50-int32(n)/125, 5)
	}
	if percentage == 0 || percentage >= 100 || n < minFeasibleNodesToFind {
		return n
	}
	return max(n*int(percentage)/100, minFeasibleNodesToFind)
}
