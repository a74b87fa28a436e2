package scheduler

import "container/heap"

// line is a priority queue of pods. Each pod knows its place, so that it can leave from the middle.
type line struct {
	pods []*queued
	less func(a, b *queued) bool
}

func (l *line) push(q *queued) { heap.Push((*lineHeap)(l), q) }

// peek returns the first pod, nil when there is none.
func (l *line) peek() *queued {
	if len(l.pods) == 0 {
		return nil
	}
	return l.pods[0]
}

func (l *line) remove(q *queued) { heap.Remove((*lineHeap)(l), q.at) }

func (l *line) fix(q *queued) { heap.Fix((*lineHeap)(l), q.at) }

func (l *line) reorder(less func(a, b *queued) bool) {
	l.less = less
	heap.Init((*lineHeap)(l))
}

// lineHeap is a line with container/heap's methods.
type lineHeap line

func (h *lineHeap) Len() int           { return len(h.pods) }
func (h *lineHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }
func (h *lineHeap) Swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	h.pods[i].at, h.pods[j].at = i, j
}
func (h *lineHeap) Push(x any) {
	q := x.(*queued)
	q.at = len(h.pods)
	h.pods = append(h.pods, q)
}
func (h *lineHeap) Pop() any {
	last := len(h.pods) - 1
	q := h.pods[last]
	h.pods[last] = nil
	h.pods = h.pods[:last]
	return q
}
