package scheduler

import "container/heap"

// podHeap is a priority queue of pods. Each pod has its index in it. Only fix and init compare pods.
type podHeap struct {
	pods []*queuedPodInfo
	less func(a, b *queuedPodInfo) bool
}

// add appends a pod. The caller then calls fix(q.index).
func (h *podHeap) add(q *queuedPodInfo) {
	q.index = len(h.pods)
	h.pods = append(h.pods, q)
}

// drop removes a pod and puts the last one at its index. It returns that index, for fix.
func (h *podHeap) drop(q *queuedPodInfo) int {
	i, last := q.index, len(h.pods)-1
	h.Swap(i, last)
	h.pods[last] = nil
	h.pods = h.pods[:last]
	return i
}

// fix moves the pod at index i to its position in the order.
func (h *podHeap) fix(i int) {
	if i < len(h.pods) {
		heap.Fix(h, i)
	}
}

func (h *podHeap) init() { heap.Init(h) }

// push and remove call add or drop, and then fix.
func (h *podHeap) push(q *queuedPodInfo)   { h.add(q); h.fix(q.index) }
func (h *podHeap) remove(q *queuedPodInfo) { h.fix(h.drop(q)) }

// peek returns the first pod, nil when there is none.
func (h *podHeap) peek() *queuedPodInfo {
	if len(h.pods) == 0 {
		return nil
	}
	return h.pods[0]
}

// Len, Less, Swap, Push and Pop are heap.Interface's. The last two are never called.
func (h *podHeap) Len() int           { return len(h.pods) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }
func (h *podHeap) Swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	h.pods[i].index, h.pods[j].index = i, j
}
func (h *podHeap) Push(any) {}
func (h *podHeap) Pop() any { return nil }
