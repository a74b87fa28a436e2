package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// statusManager writes the statuses of pods to the API, apart from the workers: a container starts while the API stores
// that it is being created. It holds the newest status of each pod.
type statusManager struct {
	mu      sync.Mutex
	pending map[objects.Key]*statusUpdate
	written map[types.UID]*corev1.Pod // the API's responses to the last writes, which may be newer than the watch
}

// statusUpdate is a status to write.
type statusUpdate struct {
	worker *podWorker
	status corev1.PodStatus
	last   bool // the pod is deleted after it
	report trace.Report
}

func newStatusManager() *statusManager {
	return &statusManager{pending: map[objects.Key]*statusUpdate{}, written: map[types.UID]*corev1.Pod{}}
}

func (m *statusManager) keys() []objects.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.pending))
}

// put adds a status. Unless replace is set, a pending status of the pod stays instead. The last status of a pod is never
// replaced by another of the same pod.
func (m *statusManager) put(key objects.Key, next *statusUpdate, replace bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.pending[key]; old != nil {
		same := old.worker == next.worker
		if same && old.last || !replace && !(same && next.last) {
			return
		}
		next.report.Causes = append(old.report.Causes, next.report.Causes...)
	}
	m.pending[key] = next
}

func (m *statusManager) take(key objects.Key) *statusUpdate {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.pending[key]
	delete(m.pending, key)
	return next
}

// newest returns the newer version of a pod: that of the watch or that of the response to its last write.
func (m *statusManager) newest(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.written[pod.UID]; w != nil && objects.RevisionOf(w) > objects.RevisionOf(pod) {
		return w
	}
	return pod
}

func (m *statusManager) setWritten(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[pod.UID] = pod
}

func (m *statusManager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, uid)
}

// postStatus hands a status to the status manager, in place of a pending one.
func (h *Host) postStatus(key objects.Key, u *statusUpdate) {
	h.statuses.put(key, u, true)
	h.enqueueStatus(key)
}

// repostStatus hands over a status that has not changed. A pending one is newer and stays.
func (h *Host) repostStatus(key objects.Key, u *statusUpdate) {
	h.statuses.put(key, u, false)
	h.enqueueStatus(key)
}

func (h *Host) enqueueStatus(key objects.Key) {
	h.mu.Lock()
	enqueue := h.statusQueue
	h.mu.Unlock()
	if enqueue != nil {
		enqueue(key, 0)
	}
}

// syncStatus writes the pending status of a pod.
func (h *Host) syncStatus(ctx context.Context, key objects.Key) (time.Duration, error) {
	next := h.statuses.take(key)
	if next == nil {
		return 0, nil
	}
	if next.worker.kubelet.down() {
		h.statuses.put(key, next, false)
		h.mu.Lock()
		h.silent[key] = struct{}{}
		h.mu.Unlock()
		if !next.worker.kubelet.down() { // nodeChanged may have come before
			h.enqueueStatus(key)
		}
		return 0, nil
	}
	ctx = trace.With(ctx, next.report.Causes...)
	for _, s := range next.report.Stages {
		trace.Add(ctx, s.Name, s.Start, s.Took)
	}
	err := next.write(ctx)
	if err != nil && !apierrors.IsNotFound(err) { // the watch enqueues a deleted pod
		h.statuses.put(key, next, false) // unless a newer one is pending
		return 0, err
	}
	next.worker.statusWritten(next.last || isFinished(next.status.Phase))
	return 0, nil
}

// write writes the status to the API, and deletes the pod after its last one.
func (u *statusUpdate) write(ctx context.Context) error {
	w := u.worker
	host := w.kubelet.host
	pod, ok := host.apiPod(w.key)
	if !ok || host.ownUID(pod) != w.uid {
		return nil
	}
	if pod = host.statuses.newest(pod); w.kubelet.leavesPod(pod) {
		return nil
	}
	status := u.status
	status.Conditions = mergeConditions(pod.Status.Conditions, u.status.Conditions)
	if !equalStatus(pod.Status, status) {
		if err := w.writeStatus(ctx, pod, status); err != nil {
			return err
		}
	}
	if !u.last {
		return nil
	}
	grace, uid := int64(0), pod.UID
	_, err := w.kubelet.client.Delete(ctx, client.In(client.Pods, w.key), metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err == nil || apierrors.IsNotFound(err) {
		host.statuses.forget(w.uid)
		return nil
	}
	return err
}

// writeStatus updates the status of the given pod. When another client has changed the pod, the update conflicts and is
// repeated for the newer pod. (A patch needs no repetition, and costs several times as much.)
func (w *podWorker) writeStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	next := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: *pod.ObjectMeta.DeepCopy(), Status: status}
	next.Spec = pod.Spec // a write of the status changes nothing in it
	got, err := w.kubelet.client.Update(ctx, client.In(client.Pods, w.key).Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	written, ok := got.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("update pod status: the response is a %T", got)
	}
	host := w.kubelet.host
	host.statuses.setWritten(written)
	if !host.has(w) { // dropped during the write: nothing else forgets the response
		host.statuses.forget(w.uid)
	}
	return nil
}
