package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// scoreAll scores the nodes that passed.
func (p *profile) scoreAll(ctx context.Context, t *tracker, e *evaluation, pod *corev1.Pod) {
	feasible, indexes := e.feasibleNodes()
	began := t.times.now()
	e.failure = p.runPreScore(ctx, t, e.state, pod, feasible)
	t.leave()
	t.times.ran("PreScore", began, e.failure)
	if e.failure != nil {
		return
	}
	e.scorers, e.listed = p.scorersFor(e.state), e.listed[:0]
	began = t.times.now()
	e.failure = e.scoreNodes(ctx, t, pod, feasible, indexes)
	t.times.ran(scorePoint, began, e.failure)
	if e.failure != nil {
		return
	}
	p.scoreByExtenders(ctx, t, e, pod, feasible, indexes)
	n := len(e.candidates)
	e.best = newTournament(n)
	for i := range n {
		e.best.seed(i, e.total(i), e.passed(i))
	}
	e.best.build()
	e.scored = true
}

// scoreNodes scores the nodes at the indexes by the plugins, and normalises the scores.
func (e *evaluation) scoreNodes(ctx context.Context, t *tracker, pod *corev1.Pod, nodes []framework.NodeInfo, indexes []int) *framework.Status {
	n := len(e.candidates)
	e.totals, e.raw, e.final = make([]int64, n), make([][]int64, len(e.scorers)), make([][]int64, len(e.scorers))
	for s, scorer := range e.scorers {
		e.raw[s], e.final[s] = make([]int64, n), make([]int64, n)
		t.enter(scorer.site)
		t.count(scorer.site, len(nodes))
		var status *framework.Status
		for k, node := range nodes {
			if e.raw[s][indexes[k]], status = score(ctx, t, e.state, pod, scorer, node); status != nil {
				return status
			}
		}
		t.leave()
		if status = e.normalise(ctx, t, pod, s, nil); status != nil {
			return status
		}
	}
	return nil
}

func (p *profile) scorersFor(state framework.CycleState) []scorer {
	skip := state.GetSkipScorePlugins()
	return slices.DeleteFunc(slices.Clone(p.score), func(s scorer) bool { return skip.Has(s.name) })
}

// runPreScore runs the PreScore plugins. The caller leaves the site of the last one.
func (p *profile) runPreScore(ctx context.Context, t *tracker, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	skip := sets.New[string]()
	for _, plugin := range p.preScore {
		t.enter(plugin.site)
		status := plugin.plugin.PreScore(ctx, state, pod, nodes)
		t.returned(plugin.site, status)
		switch {
		case status.IsSkip():
			skip.Insert(plugin.name)
		case !status.IsSuccess():
			return plugin.failed(status)
		}
	}
	state.SetSkipScorePlugins(skip)
	return nil
}

// score returns a plugin's raw score of a node. The tracker is at the plugin's site.
func score(ctx context.Context, t *tracker, state framework.CycleState, pod *corev1.Pod, s scorer, node framework.NodeInfo) (int64, *framework.Status) {
	v, status := s.plugin.Score(ctx, state, pod, node)
	t.step()
	if !status.IsSuccess() {
		return 0, s.failed(status)
	}
	return v, nil
}

// normalise computes one plugin's final scores from its raw ones, for all nodes that passed. It appends the indexes of the scores that it
// changes to moved, unless that is nil.
func (e *evaluation) normalise(ctx context.Context, t *tracker, pod *corev1.Pod, s int, moved *[]int) *framework.Status {
	scorer, raw, final := e.scorers[s], e.raw[s], e.final[s]
	e.listPassed()
	for k, i := range e.listed {
		e.list[k].Score = raw[i]
	}
	if scorer.normaliser != nil {
		if status := normaliseBy(ctx, t, scorer, e.state, pod, e.list); status != nil {
			return status
		}
	}
	for k, i := range e.listed {
		v, status := e.weigh(s, e.list[k].Score)
		if status != nil {
			return status
		}
		if moved != nil && v != final[i] {
			*moved = append(*moved, i)
		}
		final[i] = v
	}
	return nil
}

// listPassed lists the nodes that passed, unless they are listed.
func (e *evaluation) listPassed() {
	if len(e.listed) > 0 {
		return
	}
	e.list, e.listed = slices.Grow(e.list[:0], e.feasible), slices.Grow(e.listed, e.feasible)
	for i, n := range e.candidates {
		if e.passed(i) {
			e.list, e.listed = append(e.list, framework.NodeScore{Name: n.node.Name}), append(e.listed, i)
		}
	}
}

// weigh checks a normalised score and multiplies it with the plugin's weight.
func (e *evaluation) weigh(s int, v int64) (int64, *framework.Status) {
	if v < framework.MinScore || v > framework.MaxScore {
		return 0, framework.AsStatus(fmt.Errorf("plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
			e.scorers[s].name, v, framework.MinScore, framework.MaxScore))
	}
	return v * e.scorers[s].weight, nil
}

// normaliseBy calls the plugin's NormalizeScore.
func normaliseBy(ctx context.Context, t *tracker, s scorer, state framework.CycleState, pod *corev1.Pod, list framework.NodeScoreList) *framework.Status {
	t.enter(s.normalizing)
	status := s.normaliser.NormalizeScore(ctx, state, pod, list)
	t.returned(s.normalizing, status)
	t.leave()
	if !status.IsSuccess() {
		return s.normalizing.failed(status)
	}
	return nil
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

// runScore scores nodes for a plugin that calls its Handle.
func (p *profile) runScore(ctx context.Context, t *tracker, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	out := make([]framework.NodePluginScores, len(nodes))
	for i, n := range nodes {
		out[i].Name = n.Node().Name
	}
	e := &evaluation{scorers: p.scorersFor(state)}
	for s, scorer := range e.scorers {
		list := make(framework.NodeScoreList, len(nodes))
		t.enter(scorer.site)
		for i, n := range nodes {
			v, status := score(ctx, t, state, pod, scorer, n)
			if status != nil {
				return nil, status
			}
			list[i] = framework.NodeScore{Name: n.Node().Name, Score: v}
		}
		t.leave()
		if scorer.normaliser != nil {
			if status := normaliseBy(ctx, t, scorer, state, pod, list); status != nil {
				return nil, status
			}
		}
		for i := range list {
			v, status := e.weigh(s, list[i].Score)
			if status != nil {
				return nil, status
			}
			out[i].Scores = append(out[i].Scores, framework.PluginScore{Name: scorer.name, Score: v})
			out[i].TotalScore += v
		}
	}
	return out, nil
}
