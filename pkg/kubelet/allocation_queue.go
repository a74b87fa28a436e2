package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	podresources "k8s.io/component-helpers/resource"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// deferredResizeRetry is the pause before a deferred resize is tried again without a change of the node's pods.
const deferredResizeRetry = 3 * time.Minute

// resizeQueue holds the pods of a node whose resize waits. Safe for concurrent use.
type resizeQueue struct {
	mu      sync.Mutex
	waiting map[*podWorker]struct{}
}

func (q *resizeQueue) add(w *podWorker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	put(&q.waiting, w, struct{}{})
}

func (q *resizeQueue) remove(w *podWorker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, w)
}

func (q *resizeQueue) list() []*podWorker {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*podWorker
	for w := range q.waiting {
		out = append(out, w)
	}
	return out
}

// retryResizes requests another decision about the resizes that wait on the node: a pod has left it.
func (k *Kubelet) retryResizes() {
	for _, w := range k.resizes.list() {
		w.enqueue()
	}
}

// allocateResizes decides about all resizes that wait on the node, the most important ones first. It requests a sync of every pod whose
// decision has changed, except that of caller, whose sync is running.
func (k *Kubelet) allocateResizes(ctx context.Context, caller *podWorker) {
	k.admission.Lock()
	defer k.admission.Unlock()
	for !k.tryAllocateResizes(ctx, caller) {
	}
}

// tryAllocateResizes is one pass of allocateResizes. It ends at the first pod that was changed since the pass began and reports false: the
// room that this pod needs must not go to a less important one.
func (k *Kubelet) tryAllocateResizes(ctx context.Context, caller *podWorker) bool {
	var list []waitingResize
	for _, w := range k.resizes.list() {
		list = append(list, w.waitingResize())
	}
	slices.SortFunc(list, compareResizes)
	for _, r := range list {
		changed, current := r.worker.decideResize(ctx, r.pod)
		if !current {
			return false
		}
		if changed && r.worker != caller {
			r.worker.enqueue()
		}
	}
	return true
}

// waitingResize is a resize that waits, with what its place in the queue depends on.
type waitingResize struct {
	worker     *podWorker
	pod        *corev1.Pod // with the resources that it requests
	increasing bool        // it requests more than it has
	since      time.Time   // zero if it is new
}

func (w *podWorker) waitingResize() waitingResize {
	a := &w.allocation
	a.mu.Lock()
	defer a.mu.Unlock()
	r := waitingResize{worker: w, pod: a.pod}
	if a.pending != nil {
		r.since = a.pending.LastTransitionTime.Time
	}
	want := podresources.PodRequests(a.pod, podresources.PodResourcesOptions{})
	has := podresources.PodRequests(withResources(a.pod, a.allocated), podresources.PodResourcesOptions{})
	for _, name := range resizable {
		x, y := want[name], has[name]
		r.increasing = r.increasing || x.Cmp(y) > 0
	}
	return r
}

// compareResizes orders resizes: first those that do not request more, then by the pods' priority, then those of Guaranteed pods, then those
// that have waited longest, and new ones last.
func compareResizes(a, b waitingResize) int {
	order := func(first, second bool) int {
		switch {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	}
	guaranteed := func(r waitingResize) bool { return podspec.QOS(&r.pod.Spec) == corev1.PodQOSGuaranteed }
	return cmp.Or(
		order(!a.increasing, !b.increasing), cmp.Compare(priority(b.pod), priority(a.pod)), order(guaranteed(a), guaranteed(b)),
		order(!a.since.IsZero(), !b.since.IsZero()), a.since.Compare(b.since), cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name),
	)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// decideResize allocates the resources that a pod requests if the node has room, and otherwise sets the condition PodResizePending. It
// reports whether the pod's allocation or conditions have changed, and whether pod is the worker's current version: of another one nothing is
// decided. The caller holds the kubelet's admission lock.
func (w *podWorker) decideResize(ctx context.Context, pod *corev1.Pod) (changed, current bool) {
	reason, message := w.refuseResize(ctx, pod)
	a := &w.allocation
	a.mu.Lock()
	if a.pod != pod || len(a.allocated) == 0 {
		current = a.pod == pod
		a.mu.Unlock()
		return false, current
	}
	old := a.pending
	if reason == "" {
		a.allocated, a.pending = nil, nil
		a.progress = resizeCondition(corev1.PodResizeInProgress, nil, "", "", pod.Generation, w.timestamp())
	} else {
		kind := corev1.PodReasonDeferred
		if reason == corev1.PodReasonInfeasible {
			kind = reason
		}
		a.pending = resizeCondition(corev1.PodResizePending, old, kind, message, pod.Generation, w.timestamp())
	}
	now := a.pending
	a.mu.Unlock()
	if now == nil {
		w.kubelet.resizes.remove(w)
		w.event(ctx, pod, "", corev1.EventTypeNormal, "ResizeStarted", resizeMessage("Pod resize started", pod, pod.Generation, ""))
		return true, true
	}
	if old == nil || old.Reason != now.Reason || old.ObservedGeneration != now.ObservedGeneration {
		w.event(ctx, pod, "", corev1.EventTypeWarning, "Resize"+now.Reason, resizeMessage("Pod resize "+reason, pod, pod.Generation, message))
	}
	return old == nil || *old != *now, true
}

// refuseResize returns why the node cannot give a pod the resources that it requests; "" if it can.
func (w *podWorker) refuseResize(ctx context.Context, pod *corev1.Pod) (reason, message string) {
	if _, ok := w.runtime().(Resizer); !ok && !w.simulated() {
		return corev1.PodReasonInfeasible, "In-place pod resize is not supported on this node"
	}
	if end := w.unfit(ctx, pod); end != nil {
		return end.reason, end.message
	}
	return "", ""
}

// resizeMessage returns the text of an Event about a resize to the resources of pod, as Kubernetes' kubelet writes it.
func resizeMessage(what string, pod *corev1.Pod, generation int64, err string) string {
	type resources struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	}
	summary := struct {
		InitContainers []resources `json:"initContainers,omitempty"`
		Containers     []resources `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{Generation: generation, Error: err}
	for _, c := range pod.Spec.InitContainers {
		summary.InitContainers = append(summary.InitContainers, resources{c.Name, c.Resources})
	}
	for _, c := range pod.Spec.Containers {
		summary.Containers = append(summary.Containers, resources{c.Name, c.Resources})
	}
	text, failed := json.Marshal(summary)
	if failed != nil {
		return what
	}
	return what + ": " + string(text)
}

// retryResizeIn returns when the pod is synced again because of its deferred resize; 0 without one.
func (w *podWorker) retryResizeIn() time.Duration {
	a := &w.allocation
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil || a.pending.Reason != corev1.PodReasonDeferred {
		return 0
	}
	return deferredResizeRetry
}
