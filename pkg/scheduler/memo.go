package scheduler

import (
	"container/list"
	"context"

	corev1 "k8s.io/api/core/v1"
)

// memo remembers evaluations by profile and pod signature, and brings them up to date when they are asked for. After a
// placement only the node that took the pod is judged again.
type memo struct {
	known map[memoKey]*list.Element
	order *list.List // of *remembered, the latest used first
}

type memoKey struct {
	profile   *profile
	signature string
}

type remembered struct {
	key memoKey
	*evaluation
}

// memoSize bounds how many signatures are remembered.
const memoSize = 64

func newMemo() *memo { return &memo{known: map[memoKey]*list.Element{}, order: list.New()} }

// recall returns the evaluation for a pod's signature as of now, or nil when there is none or it cannot be made current.
// filtered is called between filtering and scoring.
func (m *memo) recall(ctx context.Context, key memoKey, cluster *snapshot, pod *corev1.Pod, filtered func()) *evaluation {
	el, ok := m.known[key]
	if !ok {
		return nil
	}
	e := el.Value.(*remembered).evaluation
	if e.epoch != cluster.epoch || !key.profile.update(ctx, e, cluster, pod, filtered) {
		m.order.Remove(el)
		delete(m.known, key)
		return nil
	}
	m.order.MoveToFront(el)
	return e
}

// learn remembers an evaluation that was made afresh, if it can be kept current.
func (m *memo) learn(key memoKey, e *evaluation) {
	if e.failure != nil || e.absent != nil || e.evaluated < len(e.verdicts) {
		return
	}
	m.known[key] = m.order.PushFront(&remembered{key, e})
	if m.order.Len() > memoSize {
		last := m.order.Back()
		m.order.Remove(last)
		delete(m.known, last.Value.(*remembered).key)
	}
}

// update judges the nodes again that changed since e was made. It returns false when it cannot.
func (p *profile) update(ctx context.Context, e *evaluation, cluster *snapshot, pod *corev1.Pod, filtered func()) bool {
	changed, ok := cluster.since(e.step)
	if !ok {
		return false
	}
	u := updating{profile: p, e: e, cluster: cluster, pod: pod, stale: make([]bool, len(e.scorers))}
	for _, n := range changed {
		if n.node != nil && !u.judge(ctx, n) {
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

// updating is one update under way.
type updating struct {
	profile *profile
	e       *evaluation
	cluster *snapshot
	pod     *corev1.Pod
	stale   []bool // scorers whose raw scores changed and are normalised over all nodes
	members bool   // which nodes pass changed
	touched []int  // nodes whose scores changed
}

// judge filters a node again, and scores it if it passes.
func (u *updating) judge(ctx context.Context, n *nodeInfo) bool {
	e, i := u.e, n.index
	before := e.passed(i)
	v := runFilter(ctx, e.filters, e.state, u.pod, n)
	if v.IsError() {
		return false
	}
	if before {
		e.feasible--
	}
	if !before || !v.IsSuccess() {
		e.rejections, e.told = nil, nil
	}
	e.judge(i, v)
	u.members = u.members || before != e.passed(i)
	u.touched = append(u.touched, i)
	if !e.scored || !e.passed(i) {
		return true
	}
	for s, scorer := range e.scorers {
		raw, status := score(ctx, e.state, u.pod, scorer, n)
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

// score brings the totals up to date.
func (u *updating) score(ctx context.Context) bool {
	e := u.e
	if !e.scored {
		u.profile.scoreAll(ctx, e, u.cluster, u.pod)
		return e.failure == nil
	}
	all := false
	for s, scorer := range e.scorers {
		if scorer.normaliser != nil && (u.stale[s] || u.members) && e.feasible > 0 {
			if e.normalise(ctx, u.cluster, u.pod, s) != nil {
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
	e.best.settle()
	return true
}
