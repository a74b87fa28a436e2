package kubelet

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// runtimePod is a pod in a kubelet's runtime.
type runtimePod struct {
	uid     types.UID
	kubelet *Kubelet
}

// addRuntimePod records that a runtime lists a pod.
func (h *Host) addRuntimePod(key objects.Key, p runtimePod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inRuntime[key] = append(h.inRuntime[key], p)
}

// dropRuntimePod records that a runtime no longer lists a pod.
func (h *Host) dropRuntimePod(key objects.Key, uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.inRuntime[key], func(p runtimePod) bool { return p.uid == uid })
	if len(left) == 0 {
		delete(h.inRuntime, key)
		return
	}
	h.inRuntime[key] = left
}

// syncKey syncs all pods with this name: the one in the API, and orphaned ones that a runtime still has.
func (h *Host) syncKey(ctx context.Context, key objects.Key) (time.Duration, error) {
	if static := h.static(key); static != nil {
		return h.syncStatic(ctx, key, static)
	}
	pod, ok := h.pod(key)
	if ok && isMirror(pod) {
		if k := h.kubelet(pod.Spec.NodeName); k != nil && k.listed() && !k.Tier.Simulated {
			return 0, h.removeStaticPod(ctx, k, pod)
		}
	}
	var after time.Duration
	var err error
	var uid types.UID
	if ok {
		uid = pod.UID
		if k := h.kubelet(pod.Spec.NodeName); k != nil && k.listed() && !k.down() && !k.leavesPod(pod) {
			if len(trace.From(ctx).Causes) == 0 {
				ctx = trace.With(ctx, objects.RevisionOf(pod))
			}
			after, err = h.worker(k, key, uid).sync(ctx, pod)
		}
	}
	for _, w := range h.orphans(key, uid) {
		err = errors.Join(err, w.removeOrphan(ctx))
	}
	return after, err
}

// worker returns the worker of a pod and creates it if needed.
func (h *Host) worker(k *Kubelet, key objects.Key, uid types.UID) *podWorker {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers[key] {
		if w.uid == uid {
			return w
		}
	}
	w := newPodWorker(k, key, uid)
	h.workers[key] = append(h.workers[key], w)
	return w
}

// knownWorker returns the worker of a pod, nil if it has none.
func (h *Host) knownWorker(pod *corev1.Pod) *podWorker {
	uid := h.ownUID(pod)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers[keyOf(pod)] {
		if w.uid == uid {
			return w
		}
	}
	return nil
}

// orphans returns the workers of the pods under key that are no longer in the API: all but that of uid.
func (h *Host) orphans(key objects.Key, uid types.UID) []*podWorker {
	h.mu.Lock()
	var unknown []runtimePod
	for _, p := range h.inRuntime[key] {
		if p.uid != uid && !slices.ContainsFunc(h.workers[key], func(w *podWorker) bool { return w.uid == p.uid }) {
			unknown = append(unknown, p)
		}
	}
	h.mu.Unlock()
	for _, p := range unknown {
		h.worker(p.kubelet, key, p.uid)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*podWorker
	for _, w := range h.workers[key] {
		if w.uid != uid {
			out = append(out, w)
		}
	}
	return out
}

// dropWorker removes a worker whose pod is gone from the API and the runtime.
func (h *Host) dropWorker(w *podWorker) {
	w.kubelet.resizes.remove(w)
	h.mu.Lock()
	left := slices.DeleteFunc(h.workers[w.key], func(o *podWorker) bool { return o == w })
	if len(left) == 0 {
		delete(h.workers, w.key)
	} else {
		h.workers[w.key] = left
	}
	h.mu.Unlock()
	h.refs.drop(&w.podScope)
	h.statuses.forget(w.uid)
}

// has reports whether a worker has not been dropped.
func (h *Host) has(w *podWorker) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.workers[w.key], w)
}

func (h *Host) allWorkers() []*podWorker {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*podWorker, 0, len(h.workers))
	for _, same := range h.workers {
		out = append(out, same...)
	}
	return out
}
