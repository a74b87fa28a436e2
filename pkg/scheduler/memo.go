package scheduler

import (
	"container/list"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// memo keeps evaluations by profile and pod signature, and updates them on use. After a placement only the node of the
// pod is filtered and scored again.
type memo struct {
	entries map[memoKey]*list.Element
	order   *list.List // of *memoEntry, the latest used first
}

type memoKey struct {
	profile   *profile
	signature string
	priority  int32 // nominated pods of at least this priority have their room reserved
}

type memoEntry struct {
	key memoKey
	*evaluation
}

// memoSize bounds the number of signatures in the memo.
const memoSize = 64

func newMemo() *memo { return &memo{entries: map[memoKey]*list.Element{}, order: list.New()} }

// get returns the current evaluation for a pod's signature, or nil when there is none or it cannot be updated. filtered
// is called between filtering and scoring.
func (m *memo) get(ctx context.Context, t *tracker, key memoKey, cluster *snapshot, pod *corev1.Pod, filtered func()) *evaluation {
	el, ok := m.entries[key]
	if !ok {
		return nil
	}
	e := el.Value.(*memoEntry).evaluation
	if e.epoch != cluster.epoch || !key.profile.update(ctx, t, e, cluster, pod, filtered) {
		m.order.Remove(el)
		delete(m.entries, key)
		return nil
	}
	m.order.MoveToFront(el)
	return e
}

// add adds a new evaluation to the memo, if it can be kept current.
func (m *memo) add(key memoKey, e *evaluation) {
	if e.failure != nil || e.excluded != nil || e.evaluated < len(e.statuses) {
		return
	}
	m.entries[key] = m.order.PushFront(&memoEntry{key, e})
	if m.order.Len() > memoSize {
		last := m.order.Back()
		m.order.Remove(last)
		delete(m.entries, last.Value.(*memoEntry).key)
	}
}

// update filters and scores the nodes again that changed since e was computed, and those with room reserved for nominated pods, then or now. It
// returns false if it cannot.
func (p *profile) update(ctx context.Context, t *tracker, e *evaluation, cluster *snapshot, pod *corev1.Pod, filtered func()) bool {
	changed, ok := cluster.changedSince(e.step)
	if !ok {
		return false
	}
	u := memoUpdate{tracker: t, profile: p, e: e, cluster: cluster, pod: pod, stale: make([]bool, len(e.scorers))}
	before := e.reserved
	e.reserved = p.nominator.nodes()
	for _, name := range slices.Concat(before, e.reserved) {
		if n, ok := cluster.byName[name]; ok {
			changed = append(changed, n)
		}
	}
	for _, n := range changed {
		if n.node != nil && !u.evaluate(ctx, n) {
			return false
		}
	}
	filtered()
	if (e.feasible > 0 || e.scored) && !u.score(ctx) {
		return false
	}
	e.step = cluster.step
	return true
}

// memoUpdate is an update in progress.
type memoUpdate struct {
	*tracker
	profile *profile
	e       *evaluation
	cluster *snapshot
	pod     *corev1.Pod
	stale   []bool // scorers whose raw scores changed and are normalised over all nodes
	members bool   // the set of feasible nodes changed
	touched []int  // nodes whose scores changed
}

// evaluate filters a node again, and scores it if it passes.
func (u *memoUpdate) evaluate(ctx context.Context, n *nodeInfo) bool {
	e, i := u.e, n.index
	before := e.passed(i)
	v := u.profile.runFilterWithNominated(ctx, u.tracker, e.filters, e.state, u.pod, n)
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
	u.members = u.members || before != e.passed(i)
	u.touched = append(u.touched, i)
	if !e.scored || !e.passed(i) {
		return true
	}
	for s, scorer := range e.scorers {
		u.enter(scorer.site)
		raw, status := score(ctx, u.tracker, e.state, u.pod, scorer, n)
		u.leave()
		if status != nil {
			return false
		}
		if scorer.normaliser != nil {
			u.stale[s] = u.stale[s] || raw != e.raw[s][i]
		} else if e.final[s][i], status = e.weigh(s, raw); status != nil {
			return false
		}
		e.raw[s][i] = raw
	}
	return true
}

// score updates the totals.
func (u *memoUpdate) score(ctx context.Context) bool {
	e := u.e
	if !e.scored {
		u.profile.scoreAll(ctx, u.tracker, e, u.cluster, u.pod)
		return e.failure == nil
	}
	all := false
	for s, scorer := range e.scorers {
		if scorer.normaliser != nil && (u.stale[s] || u.members) && e.feasible > 0 {
			if e.normalise(ctx, u.tracker, u.cluster, u.pod, s) != nil {
				return false
			}
			all = true
		}
	}
	if !all {
		for _, i := range u.touched {
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
