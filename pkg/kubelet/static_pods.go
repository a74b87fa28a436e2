package kubelet

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/dirwatch"
	"github.com/minikctl/minikctl/pkg/objects"
)

const (
	staticPollPeriod = 20 * time.Second      // as in Kubernetes; for changes that the system does not report
	coalesceWrites   = 50 * time.Millisecond // an editor may write several times for one change
)

// staticPods are the static pods of a node. Only the goroutine of followStaticPods uses it.
type staticPods struct {
	files map[string]*corev1.Pod // by file
}

// followStaticPods keeps the static pods of the node equal to the files of StaticPodPath until ctx ends.
func (k *Kubelet) followStaticPods(ctx context.Context, s *staticPods) {
	changes, stop := dirwatch.Watch(k.StaticPodPath)
	defer stop()
	tick := k.host.machineClock().NewTicker(staticPollPeriod)
	defer tick.Stop()
	k.readStaticPods(s, true) // changes since the first read
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if clock.Sleep(ctx, k.host.machineClock(), coalesceWrites) != nil {
				return
			}
			k.readStaticPods(s, true)
		case <-tick.C():
			k.readStaticPods(s, false)
		}
	}
}

// readStaticPods reads the files again. With keep, a file that has no valid pod now keeps the one that it had: it may be half written.
func (k *Kubelet) readStaticPods(s *staticPods, keep bool) {
	files, invalid, err := readStaticPods(k.StaticPodPath, k.Name)
	if err != nil {
		slog.Error("cannot read the static pods", "node", k.Name, "path", k.StaticPodPath, "err", err)
		return
	}
	for _, file := range invalid {
		if old := s.files[file]; keep && old != nil {
			files[file] = old
		}
	}
	now := k.host.machineClock().Now()
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if pod := files[file]; pod.Annotations[configSeen] == "" {
			pod.Annotations[configSeen] = now.Format(time.RFC3339Nano)
		}
	}
	s.files = files
	k.host.setStaticPods(k.Name, files)
}

// setStaticPods replaces the static pods of a node and enqueues those that have changed.
func (h *Host) setStaticPods(node string, files map[string]*corev1.Pod) {
	next := map[objects.Key]*corev1.Pod{}
	for _, file := range slices.Sorted(maps.Keys(files)) { // of two files with one name, the last counts
		next[keyOf(files[file])] = files[file]
	}
	var changed []objects.Key
	h.mu.Lock()
	for key, old := range h.statics {
		if old.Spec.NodeName == node && next[key] == nil {
			delete(h.statics, key)
			changed = append(changed, key)
		}
	}
	for key, pod := range next {
		if old := h.statics[key]; old != nil && old.UID == pod.UID {
			continue
		}
		put(&h.statics, key, pod)
		changed = append(changed, key)
	}
	h.mu.Unlock()
	for _, key := range changed {
		h.enqueue(key, 0)
	}
}

// static returns the static pod of key as its file has it, nil if there is none.
func (h *Host) static(key objects.Key) *corev1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statics[key]
}

// staticKeys returns the keys of a node's static pods.
func (h *Host) staticKeys(node string) []objects.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	var keys []objects.Key
	for key, pod := range h.statics {
		if pod.Spec.NodeName == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// withMirror returns a static pod with what the API decides of it. Its status is only what its containers say: the pod starts again on a
// node that has shut down.
func withMirror(static, mirror *corev1.Pod) *corev1.Pod {
	pod := static.DeepCopy()
	if mirror != nil && mirrors(mirror, static) {
		pod.Generation, pod.CreationTimestamp = mirror.Generation, mirror.CreationTimestamp
		pod.Spec.Priority = mirror.Spec.Priority
		pod.Status.QOSClass, pod.Status.Conditions = mirror.Status.QOSClass, otherConditions(mirror.Status.Conditions)
	}
	return pod
}

// ownPods returns the pods that are bound to the node or are its static pods. A mirror counts as the static pod.
func (k *Kubelet) ownPods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range k.pods.ByIndex(byNode, k.Name) {
		if k.Tier.Simulated || !isMirror(pod) {
			out = append(out, pod)
		}
	}
	for _, key := range k.host.staticKeys(k.Name) {
		if pod, ok := k.host.pod(key); ok {
			out = append(out, pod)
		}
	}
	return out
}

// ownUID returns the UID under which the node runs a pod of the API: that of the static pod instead of its mirror.
func (h *Host) ownUID(pod *corev1.Pod) types.UID {
	if static := h.static(keyOf(pod)); static != nil && mirrors(pod, static) {
		return static.UID
	}
	return pod.UID
}
