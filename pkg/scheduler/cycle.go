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

// decide finds the node for a pod: it is the scheduling cycle, a function of the cluster, the pod and the profile's
// plugins. e is what the plugins say of every node: made afresh by evaluate, or remembered from an earlier pod of the
// same signature and brought up to date. draw chooses among n equally good nodes.
func (p *profile) decide(ctx context.Context, cluster *snapshot, pod *corev1.Pod, e *evaluation, draw func(n int) int) decision {
	d := decision{evaluation: e, cluster: cluster, nodes: len(cluster.nodes)}
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
		d.node = cluster.nodes[e.best.winner(winner)]
		return d
	}
	if d.status.IsRejected() && d.nodes > 0 {
		d.postFilter(ctx, p, cluster, pod)
	}
	return d
}

// decision is the outcome of a cycle: a node, or why there is none.
type decision struct {
	*evaluation
	cluster *snapshot
	node    *nodeInfo
	nodes   int
	status  *framework.Status // nil when there is a node
	after   string            // what the PostFilter plugins said
}

// evaluation is what a profile's plugins say of every node for one pod. Slices are indexed by the node's place in the
// snapshot; step and epoch tell how new it is.
type evaluation struct {
	state   *cycleState
	failure *framework.Status // the pod was turned away before any node was looked at, or a plugin broke
	early   string            // what a PreFilter plugin turned the pod away with
	absent  *framework.Status // of the nodes that PreFilter plugins left out

	verdicts  []*framework.Status // nil: the node passed
	judged    []bool              // the node was filtered
	evaluated int
	feasible  int

	filters []framework.FilterPlugin // these and the scorers: without those that skip the pod
	scorers []scorer
	raw     [][]int64
	final   [][]int64 // normalised and weighted
	totals  []int64
	best    tournament
	scored  bool

	step, epoch uint64
	// Both made when asked for, and dropped when a verdict changes. What was told is shared by reports.
	rejections []rejection
	told       []minikctl.Rejection
}

// evaluate asks every plugin about every node. filtered is called between filtering and scoring.
func (p *profile) evaluate(ctx context.Context, cluster *snapshot, pod *corev1.Pod, filtered func()) *evaluation {
	n := len(cluster.nodes)
	e := &evaluation{state: newCycleState(), step: cluster.step, epoch: cluster.epoch}
	if lacks := p.registry.missing(pod); lacks != "" {
		e.early = lacks
		e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable, lacks)
		return e
	}
	if n == 0 {
		e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable).WithError(errNoNodes)
		return e
	}
	allowed := p.runPreFilter(ctx, e, cluster, pod)
	if e.failure != nil {
		return e
	}
	e.verdicts, e.judged = make([]*framework.Status, n), make([]bool, n)
	p.filterAll(ctx, e, cluster, pod, allowed)
	filtered()
	if e.failure == nil && e.feasible > 0 {
		p.scoreAll(ctx, e, cluster, pod)
	}
	return e
}

// runPreFilter runs the PreFilter plugins and returns the nodes that they leave, nil for all.
func (p *profile) runPreFilter(ctx context.Context, e *evaluation, cluster *snapshot, pod *corev1.Pod) sets.Set[string] {
	nodes, _ := cluster.List()
	var allowed *framework.PreFilterResult
	skip, limiting := sets.New[string](), sets.New[string]()
	for _, plugin := range p.preFilter {
		result, status := plugin.PreFilter(ctx, e.state, pod, nodes)
		switch {
		case status.IsSkip():
			skip.Insert(plugin.Name())
			continue
		case status.IsRejected():
			e.early, e.failure = status.Message(), status.WithPlugin(plugin.Name())
			return nil
		case !status.IsSuccess():
			e.failure = broken("PreFilter", plugin, status)
			return nil
		}
		if !result.AllNodes() {
			limiting.Insert(plugin.Name())
		}
		if allowed = allowed.Merge(result); !allowed.AllNodes() && len(allowed.NodeNames) == 0 {
			e.early = fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", sets.List(limiting))
			if len(limiting) == 1 {
				e.early = fmt.Sprintf("node(s) didn't satisfy plugin %v", plugin.Name())
			}
			e.failure = framework.NewStatus(framework.UnschedulableAndUnresolvable, e.early).WithPlugin(plugin.Name())
			return nil
		}
	}
	e.state.SetSkipFilterPlugins(skip)
	e.filters = p.filtersFor(e.state)
	if allowed.AllNodes() {
		return nil
	}
	e.absent = framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(limiting)))
	return allowed.NodeNames
}

// filterAll filters the nodes, all of them or until enough have passed.
func (p *profile) filterAll(ctx context.Context, e *evaluation, cluster *snapshot, pod *corev1.Pod, allowed sets.Set[string]) {
	var nodes []*nodeInfo
	for _, n := range cluster.nodes {
		if allowed == nil || allowed.Has(n.node.Name) {
			nodes = append(nodes, n)
		}
	}
	want := enough(p.percentage, len(nodes))
	first := 0
	if want < len(nodes) {
		first = cluster.offset % len(nodes)
	}
	const chunk = 128
	for done := 0; done < len(nodes) && e.feasible < want && e.failure == nil; {
		size := min(chunk, len(nodes)-done)
		verdicts := e.filterSome(ctx, pod, nodes, first+done, size)
		for i, v := range verdicts {
			n := nodes[(first+done+i)%len(nodes)]
			if v.IsError() {
				e.failure = v
				break
			}
			if v.IsSuccess() && e.feasible == want {
				size = i // the rest of the chunk was not needed: as if never looked at
				break
			}
			e.judge(n.index, v)
		}
		done += size
		cluster.offset = (first + done) % len(nodes)
	}
}

// judge notes what the Filter plugins said of a node.
func (e *evaluation) judge(i int, v *framework.Status) {
	if !e.judged[i] {
		e.evaluated++
		e.judged[i] = true
	}
	if v.IsSuccess() {
		v = nil
		e.feasible++
	}
	e.verdicts[i] = v
}

func (e *evaluation) passed(i int) bool { return e.judged[i] && e.verdicts[i] == nil }

// filterSome filters size nodes from first on, going round.
func (e *evaluation) filterSome(ctx context.Context, pod *corev1.Pod, nodes []*nodeInfo, first, size int) []*framework.Status {
	verdicts := make([]*framework.Status, size)
	for i := range size {
		verdicts[i] = runFilter(ctx, e.filters, e.state, pod, nodes[(first+i)%len(nodes)])
	}
	return verdicts
}

// runFilter asks Filter plugins about one node, until one says no.
func runFilter(ctx context.Context, plugins []framework.FilterPlugin, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	for _, plugin := range plugins {
		status := plugin.Filter(ctx, state, pod, node)
		if status.IsSuccess() {
			continue
		}
		if !status.IsRejected() {
			status = broken("Filter", plugin, status)
		}
		return status.WithPlugin(plugin.Name())
	}
	return nil
}

// filtersFor returns the Filter plugins that do not skip the pod.
func (p *profile) filtersFor(state framework.CycleState) []framework.FilterPlugin {
	skip := state.GetSkipFilterPlugins()
	return slices.DeleteFunc(slices.Clone(p.filter), func(f framework.FilterPlugin) bool { return skip.Has(f.Name()) })
}

// scoreAll scores the nodes that passed.
func (p *profile) scoreAll(ctx context.Context, e *evaluation, cluster *snapshot, pod *corev1.Pod) {
	feasible := make([]framework.NodeInfo, 0, e.feasible)
	places := make([]int, 0, e.feasible)
	for i, n := range cluster.nodes {
		if e.passed(i) {
			feasible, places = append(feasible, n), append(places, i)
		}
	}
	if status := p.runPreScore(ctx, e.state, pod, feasible); !status.IsSuccess() {
		e.failure = status
		return
	}
	e.scorers = p.scorersFor(e.state)
	n := len(cluster.nodes)
	e.totals, e.raw, e.final = make([]int64, n), make([][]int64, len(e.scorers)), make([][]int64, len(e.scorers))
	for s, scorer := range e.scorers {
		e.raw[s], e.final[s] = make([]int64, n), make([]int64, n)
		for k, node := range feasible {
			if e.raw[s][places[k]], e.failure = score(ctx, e.state, pod, scorer, node); e.failure != nil {
				return
			}
		}
		if e.failure = e.normalise(ctx, cluster, pod, s); e.failure != nil {
			return
		}
	}
	e.best = newTournament(n)
	for i := range n {
		e.best.seed(i, e.total(i), e.passed(i))
	}
	e.best.settle()
	e.scored = true
}

func (p *profile) scorersFor(state framework.CycleState) []scorer {
	skip := state.GetSkipScorePlugins()
	return slices.DeleteFunc(slices.Clone(p.score), func(s scorer) bool { return skip.Has(s.Name()) })
}

func (p *profile) runPreScore(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	skip := sets.New[string]()
	for _, plugin := range p.preScore {
		status := plugin.PreScore(ctx, state, pod, nodes)
		switch {
		case status.IsSkip():
			skip.Insert(plugin.Name())
		case !status.IsSuccess():
			return broken("PreScore", plugin, status)
		}
	}
	state.SetSkipScorePlugins(skip)
	return nil
}

// score returns a plugin's raw score of a node.
func score(ctx context.Context, state framework.CycleState, pod *corev1.Pod, s scorer, node framework.NodeInfo) (int64, *framework.Status) {
	v, status := s.Score(ctx, state, pod, node)
	if !status.IsSuccess() {
		return 0, broken("Score", s, status)
	}
	return v, nil
}

// normalise makes final scores of one plugin's raw ones, for all nodes that passed.
func (e *evaluation) normalise(ctx context.Context, cluster *snapshot, pod *corev1.Pod, s int) *framework.Status {
	scorer := e.scorers[s]
	if scorer.normaliser == nil {
		return e.weighAll(s, e.raw[s])
	}
	list := make(framework.NodeScoreList, 0, e.feasible)
	for i, n := range cluster.nodes {
		if e.passed(i) {
			list = append(list, framework.NodeScore{Name: n.node.Name, Score: e.raw[s][i]})
		}
	}
	if status := scorer.normaliser.NormalizeScore(ctx, e.state, pod, list); !status.IsSuccess() {
		return broken("NormalizeScore", scorer, status)
	}
	k := 0
	for i := range cluster.nodes {
		if e.passed(i) {
			e.final[s][i] = list[k].Score
			k++
		}
	}
	return e.weighAll(s, e.final[s])
}

// weighAll makes the final scores of normalised ones, which may be the same slice.
func (e *evaluation) weighAll(s int, normalised []int64) (status *framework.Status) {
	for i, v := range normalised {
		if e.passed(i) {
			if e.final[s][i], status = e.weigh(s, v); status != nil {
				return status
			}
		}
	}
	return nil
}

// weigh checks a normalised score and multiplies it with the plugin's weight.
func (e *evaluation) weigh(s int, v int64) (int64, *framework.Status) {
	if v < framework.MinScore || v > framework.MaxScore {
		return 0, framework.AsStatus(fmt.Errorf("plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
			e.scorers[s].Name(), v, framework.MinScore, framework.MaxScore))
	}
	return v * e.scorers[s].weight, nil
}

// total sums a node's final scores.
func (e *evaluation) total(i int) int64 {
	var sum int64
	for s := range e.final {
		sum += e.final[s][i]
	}
	e.totals[i] = sum
	return sum
}

// runScore scores nodes for a plugin that asks through its Handle.
func (p *profile) runScore(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	out := make([]framework.NodePluginScores, len(nodes))
	for i, n := range nodes {
		out[i].Name = n.Node().Name
	}
	e := &evaluation{scorers: p.scorersFor(state)}
	for s, scorer := range e.scorers {
		list := make(framework.NodeScoreList, len(nodes))
		for i, n := range nodes {
			v, status := score(ctx, state, pod, scorer, n)
			if status != nil {
				return nil, status
			}
			list[i] = framework.NodeScore{Name: n.Node().Name, Score: v}
		}
		if scorer.normaliser != nil {
			if status := scorer.normaliser.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
				return nil, broken("NormalizeScore", scorer, status)
			}
		}
		for i := range list {
			v, status := e.weigh(s, list[i].Score)
			if status != nil {
				return nil, status
			}
			out[i].Scores = append(out[i].Scores, framework.PluginScore{Name: scorer.Name(), Score: v})
			out[i].TotalScore += v
		}
	}
	return out, nil
}

// runExtensions calls f for the extensions of the PreFilter plugins that did not skip.
func (p *profile) runExtensions(state framework.CycleState, f func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, plugin := range p.preFilter {
		e := plugin.PreFilterExtensions()
		if e == nil || state.GetSkipFilterPlugins().Has(plugin.Name()) {
			continue
		}
		if status := f(e); !status.IsSuccess() {
			return broken("PreFilterExtensions", plugin, status)
		}
	}
	return nil
}

// broken is the status of a cycle that a plugin ended by an error.
func broken(where string, plugin framework.Plugin, status *framework.Status) *framework.Status {
	return framework.AsStatus(fmt.Errorf("running %s plugin %q: %w", where, plugin.Name(), status.AsError())).WithPlugin(plugin.Name())
}

// leastToFind is how many nodes that pass are looked for however small the percentage is.
const leastToFind = 100

// enough returns how many of n nodes have to pass before the search ends. Without a percentage it is all of them: what
// that costs is small where verdicts are remembered, and the best node is found.
func enough(percentage int32, n int) int {
	if percentage == 0 || percentage >= 100 || n < leastToFind {
		return n
	}
	return max(n*int(percentage)/100, leastToFind)
}
