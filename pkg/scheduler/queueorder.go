package scheduler

import (
	"context"
	"log/slog"
	"slices"

	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"
)

// sorterOf returns the QueueSort plugin, of which all profiles have the same.
func sorterOf(profiles map[string]*profile) *extension[framework.QueueSortPlugin] {
	for _, p := range profiles {
		return &p.queueSort[0]
	}
	return nil
}

// sortActive runs sort, which compares pods of the activeQ. A sorter that fails is not called again.
func (q *queue) sortActive(ctx context.Context, sort func(*activeOrder)) {
	if len(q.activeQ.pods) < 2 {
		return
	}
	if q.sorter != nil {
		failure := q.calls.do(ctx, q.sorter.cooperative, func(_ context.Context, t *tracker) {
			order := newActiveOrder(t, q.sorter)
			q.activeQ.less = order.less
			sort(order)
		})
		if failure == nil {
			return
		}
		slog.ErrorContext(ctx, "queue sort plugin failed, pods are sorted by priority until the scheduler config changes", "err", failure)
		q.sorter = nil
		q.activeQ.pods = slices.Clone(q.activeQ.pods) // a hanging call keeps the other slice
	}
	q.activeQ.less = byPriority
	q.activeQ.init()
}

// first returns the first pod of the activeQ, nil when there is none.
func (q *queue) first(ctx context.Context) *queuedPodInfo {
	if q.sorter != nil {
		if _, keyed := q.sorter.plugin.(KeyedSort); keyed {
			q.sortActive(ctx, func(o *activeOrder) { o.refreshFirst(&q.activeQ) })
		}
	}
	return q.activeQ.peek()
}

// byPriority is the order after a QueueSort plugin has failed.
func byPriority(a, b *queuedPodInfo) bool {
	p, r := helper.PodPriority(a.info.pod), helper.PodPriority(b.info.pod)
	return p > r || p == r && a.arrival < b.arrival
}

// activeOrder is the order of the activeQ in a section of calls.
type activeOrder struct {
	*tracker
	sorter *extension[framework.QueueSortPlugin]
	keyed  KeyedSort // nil: the plugin is none
}

func newActiveOrder(t *tracker, sorter *extension[framework.QueueSortPlugin]) *activeOrder {
	keyed, _ := sorter.plugin.(KeyedSort)
	return &activeOrder{t, sorter, keyed}
}

// less calls the QueueSort plugin, and breaks ties by arrival.
func (o *activeOrder) less(a, b *queuedPodInfo) bool {
	if o.keyed != nil {
		o.computeKey(a)
		o.computeKey(b)
	}
	o.enter(o.sorter.site)
	before := o.before(a, b)
	after := !before && o.before(b, a)
	o.leave()
	return before || !after && a.arrival < b.arrival
}

func (o *activeOrder) before(a, b *queuedPodInfo) bool {
	if o.keyed != nil {
		return o.keyed.LessKeyed(a, b, a.sortKey, b.sortKey)
	}
	return o.sorter.plugin.Less(a, b)
}

// computeKey computes the key of a pod that has none.
func (o *activeOrder) computeKey(p *queuedPodInfo) {
	if p.sortKey == nil {
		o.enter(o.sorter.site)
		key := o.keyed.SortKey(p)
		o.leave()
		p.sortKey = key
	}
}

// refreshFirst computes the key of the first pod again until it has not changed. Each pod has its turn once at most, so that keys that change all
// the time do not keep the loop going.
func (o *activeOrder) refreshFirst(h *podHeap) {
	for range len(h.pods) {
		p := h.peek()
		o.enter(o.sorter.site)
		key := o.keyed.SortKey(p)
		o.leave() // an abandoned call ends here, and does not read the pod's key, which others write
		if key == p.sortKey {
			return
		}
		p.sortKey = key
		h.fix(0)
	}
}
