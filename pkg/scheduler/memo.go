package scheduler

import (
	"container/list"
	"context"

	corev1 "k8s.io/api/core/v1"
)

// memo keeps evaluations by profile and pod signature, and updates them on use (update.go).
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
