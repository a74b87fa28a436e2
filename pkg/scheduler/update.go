package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// update brings an evaluation up to date with the changes since it was computed. All plugins filter and score the nodes again
// whose pods or nominated pods changed. The nodes that an Incremental plugin adds are filtered again by that
// plugin and the Filter plugins after it, and scored again by that plugin. It returns false if it cannot.
func (p *profile) update(ctx context.Context, t *tracker, e *evaluation, cluster *snapshot, pod *corev1.Pod, filtered func()) bool {
	changes, ok := cluster.changesSince(e.step)
	if !ok {
		return false
	}
	u := evaluationUpdate{tracker: t, profile: p, e: e, cluster: cluster, pod: pod, changes: changes}
	if !u.begin() {
		return false
	}
	began := t.times.now()
	if !u.filter(ctx) {
		return false
	}
	t.times.ran(filterPoint, began, nil)
	filtered()
	switch {
	case e.feasible == 0:
		e.scored = false
	case !e.scored:
		if p.scoreAll(ctx, t, e, pod); e.failure != nil {
			return false
		}
	default:
		began = t.times.now()
		ok := u.score(ctx)
		if u.leave(); !ok {
			return false
		}
		t.times.ran(scorePoint, began, nil)
	}
	e.step = cluster.step
	return true
}

// evaluationUpdate is an update in progress.
type evaluationUpdate struct {
	*tracker
	profile *profile
	e       *evaluation
	cluster *snapshot
	pod     *corev1.Pod
	changes []PodChange
	*updateScratch
}

// updateScratch is the memory that the updates of an evaluation share.
type updateScratch struct {
	stale        Stale // of the plugin at hand
	staleScores  []Stale
	changed      []*nodeInfo // nodes whose pods or nominated pods changed; with a plugin that looks at other nodes also all with nominated pods
	visited      []uint64    // by index: the last update in which it was in changed
	updates      uint64
	joined, left []framework.NodeInfo // the nodes that passed after the update but not before, and vice versa
	scored       []int                // the indexes of nodes whose scores changed
	restale      []bool               // by scorer: a raw score changed
	refiltered   []int                // the indexes of nodes that some of the plugins filter again
	restatuses   []*framework.Status  // what they returned
}

// begin collects the nodes to filter by all plugins. It returns false if they are not known.
func (u *evaluationUpdate) begin() bool {
	e := u.e
	if e.scratch == nil {
		e.scratch = &updateScratch{visited: make([]uint64, len(e.statuses)), stale: Stale{cluster: u.cluster}}
	}
	s := e.scratch
	u.updateScratch = s
	s.updates++
	s.changed, s.joined, s.left, s.scored = s.changed[:0], s.joined[:0], s.left[:0], s.scored[:0]
	for _, c := range u.changes {
		u.addChanged(c.Node.(*nodeInfo))
	}
	names, now, ok := u.profile.nominator.changesSince(e.nominations)
	if !ok {
		return false
	}
	u.addNamed(names)
	if !u.profile.filtersLocally(e.state) {
		u.addNamed(u.profile.nominator.nodes())
	}
	e.nominations = now
	return true
}

func (u *evaluationUpdate) addNamed(names []string) {
	for _, name := range names {
		if n, ok := u.cluster.byName[name]; ok && n.node != nil {
			u.addChanged(n)
		}
	}
}

func (u *evaluationUpdate) addChanged(n *nodeInfo) {
	if at := u.e.indexOf(n); at >= 0 && u.visited[at] != u.updates {
		u.visited[at] = u.updates
		u.changed = append(u.changed, n)
	}
}

// filter filters nodes again.
func (u *evaluationUpdate) filter(ctx context.Context) bool {
	for len(u.staleScores) < len(u.profile.updaters) {
		u.staleScores = append(u.staleScores, Stale{cluster: u.cluster})
	}
	if len(u.changes) > 0 {
		for k, x := range u.profile.updaters {
			u.staleScores[k].reset()
			u.enter(x.site)
			if !x.plugin.UpdateFilter(u.e.state, u.pod, u.changes, &u.staleScores[k]) {
				u.leave()
				return false
			}
		}
		u.leave()
	}
	for _, n := range u.changed {
		if !u.filterNode(ctx, n) {
			return false
		}
	}
	if len(u.changes) == 0 {
		return true
	}
	for k, x := range u.profile.updaters {
		first := u.filterAt(x.name)
		if first < 0 {
			continue
		}
		if !u.refilter(ctx, &u.staleScores[k], first) {
			return false
		}
	}
	return true
}

// filterAt returns the index of a Filter plugin among those that do not skip the pod, or -1.
func (u *evaluationUpdate) filterAt(plugin string) int {
	for i := range u.e.filters {
		if u.e.filters[i].name == plugin {
			return i
		}
	}
	return -1
}

// refilter filters the nodes of stale again from one of the plugins on, except those that a plugin before rejected. None of them has room
// reserved for nominated pods: those nodes are in changed.
func (u *evaluationUpdate) refilter(ctx context.Context, stale *Stale, first int) bool {
	u.refiltered = u.refiltered[:0]
	stale.each(u.e, func(i int) bool {
		if u.visited[i] == u.updates {
			return true // filtered by all plugins
		}
		if status := u.e.statuses[i]; status != nil {
			if at := u.filterAt(status.Plugin()); at >= 0 && at < first {
				return true
			}
		}
		u.refiltered = append(u.refiltered, i)
		return true
	})
	statuses := slices.Grow(u.restatuses[:0], len(u.refiltered))[:len(u.refiltered)]
	clear(statuses)
	u.restatuses = statuses
	u.e.filterBy(ctx, u.tracker, u.e.filters[first:], u.pod, statuses, func(i int) *nodeInfo { return u.e.candidates[u.refiltered[i]] })
	for i, v := range statuses {
		if !u.setStatus(u.refiltered[i], v) {
			return false
		}
	}
	return true
}

// filterNode filters a node by all plugins.
func (u *evaluationUpdate) filterNode(ctx context.Context, n *nodeInfo) bool {
	return u.setStatus(u.e.indexOf(n), u.profile.runFilterWithNominated(ctx, u.tracker, u.e.filters, u.e.state, u.pod, n))
}

// setStatus sets what the plugins returned for the node at an index. It returns false if that is an error.
func (u *evaluationUpdate) setStatus(i int, v *framework.Status) bool {
	e, n := u.e, u.e.candidates[i]
	before := e.passed(i)
	if v.IsError() {
		return false
	}
	if before {
		e.feasible--
	}
	if !before || !v.IsSuccess() {
		e.rejections, e.reported = nil, nil
	}
	e.setStatus(i, v)
	switch passed := e.passed(i); {
	case passed && !before:
		u.joined = append(u.joined, n)
	case before && !passed:
		u.left = append(u.left, n)
	}
	return true
}

// score scores nodes again and updates the totals. The caller leaves the site of the last plugin.
func (u *evaluationUpdate) score(ctx context.Context) bool {
	e := u.e
	u.restale = append(u.restale[:0], make([]bool, len(e.scorers))...)
	for _, nodes := range [2][]framework.NodeInfo{u.joined, u.left} {
		for _, n := range nodes {
			u.scored = append(u.scored, e.indexOf(n.(*nodeInfo)))
		}
	}
	if !u.updateScores(ctx) {
		return false
	}
	for _, n := range u.changed {
		if at := e.indexOf(n); e.passed(at) && !u.scoreNode(ctx, at) {
			return false
		}
	}
	for _, n := range u.joined {
		if at := e.indexOf(n.(*nodeInfo)); u.visited[at] != u.updates && !u.scoreNode(ctx, at) {
			return false
		}
	}
	return u.normalise(ctx)
}

// updateScores updates the Incremental plugins and scores the nodes again that they add.
func (u *evaluationUpdate) updateScores(ctx context.Context) bool {
	if len(u.changes) == 0 {
		return true
	}
	for _, x := range u.profile.updaters {
		u.stale.reset()
		u.enter(x.site)
		if !x.plugin.UpdateScore(u.e.state, u.pod, u.changes, u.joined, u.left, &u.stale) {
			return false
		}
		for s := range u.e.scorers {
			if u.e.scorers[s].name == x.name && !u.stale.each(u.e, func(i int) bool { return !u.e.passed(i) || u.scoreOne(ctx, i, s) }) {
				return false
			}
		}
	}
	return true
}

// scoreNode scores the node at an index by all plugins.
func (u *evaluationUpdate) scoreNode(ctx context.Context, i int) bool {
	u.scored = append(u.scored, i)
	for s := range u.e.scorers {
		if !u.scoreOne(ctx, i, s) {
			return false
		}
	}
	return true
}

// scoreOne scores the node at an index by one plugin. The caller leaves the plugin's site.
func (u *evaluationUpdate) scoreOne(ctx context.Context, i, s int) bool {
	e, n := u.e, u.e.candidates[i]
	scorer := e.scorers[s]
	u.enter(scorer.site)
	u.count(scorer.site, 1)
	raw, status := score(ctx, u.tracker, e.state, u.pod, scorer, n)
	if status != nil {
		return false
	}
	if raw == e.raw[s][i] && scorer.normaliser == nil {
		return true
	}
	if scorer.normaliser != nil {
		u.restale[s] = u.restale[s] || raw != e.raw[s][i]
	} else {
		if e.final[s][i], status = e.weigh(s, raw); status != nil {
			return false
		}
		u.scored = append(u.scored, i)
	}
	e.raw[s][i] = raw
	return true
}

// manyMoved is the part of the nodes, 1/manyMoved, from which on it is faster to build the tournament again than to change it for each.
const manyMoved = 16

// normalise normalises the raw scores again where needed, and updates the totals.
func (u *evaluationUpdate) normalise(ctx context.Context) bool {
	e := u.e
	if len(u.joined)+len(u.left) > 0 {
		e.listed = e.listed[:0]
	}
	for s, scorer := range e.scorers {
		if scorer.normaliser != nil && (u.restale[s] || len(u.joined)+len(u.left) > 0) {
			if e.normalise(ctx, u.tracker, u.pod, s, &u.scored) != nil {
				return false
			}
		}
	}
	if len(u.scored) < len(e.totals)/manyMoved {
		for _, i := range u.scored {
			e.best.set(i, e.total(i), e.passed(i))
		}
		return true
	}
	for i := range e.totals {
		e.best.seed(i, e.total(i), e.passed(i))
	}
	e.best.build()
	return true
}
