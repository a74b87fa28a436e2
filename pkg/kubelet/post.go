package kubelet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// posts holds the statuses that wait to be written, the newest of each pod. Writing them apart from the work on the pods
// lets a container start while the API stores that it is being created.
type posts struct {
	mu      sync.Mutex
	waiting map[objects.Key]*posting
	written map[types.UID]*corev1.Pod // what the API answered to the last write, for pods that the watch may lag behind
}

// posting is a status to write.
type posting struct {
	worker *worker
	status corev1.PodStatus
	last   bool // the pod is to be deleted after it
	report trace.Report
}

func (p *posts) keys() []objects.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]objects.Key, 0, len(p.waiting))
	for key := range p.waiting {
		out = append(out, key)
	}
	return out
}

func (p *posts) put(key objects.Key, next *posting, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting, p.written = map[objects.Key]*posting{}, map[types.UID]*corev1.Pod{}
	}
	if old := p.waiting[key]; old != nil {
		same := old.worker == next.worker
		if same && old.last || !over && !(same && next.last) { // what ends a pod is not given up
			return
		}
		next.report.Causes = append(old.report.Causes, next.report.Causes...)
	}
	p.waiting[key] = next
}

func (p *posts) take(key objects.Key) *posting {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.waiting[key]
	delete(p.waiting, key)
	return next
}

// newest returns the newer of a pod from the watch and what the last write answered.
func (p *posts) newest(pod *corev1.Pod) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.written[pod.UID]; w != nil && revisionOf(w) > revisionOf(pod) {
		return w
	}
	return pod
}

func (p *posts) wrote(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[pod.UID] = pod
}

func (p *posts) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, uid)
}

// post hands the pod's status, as of now, to be written if it is new. It returns the phase.
func (w *worker) post(ctx context.Context, pod *corev1.Pod, seen Pod) corev1.PodPhase {
	w.mu.Lock()
	status := w.generate(pod, seen)
	same := w.status != nil && equality.Semantic.DeepEqual(*w.status, status)
	w.status = &status
	report := trace.From(ctx)
	if !same {
		report.Stages = append(report.Stages, w.stages...)
		w.stages = nil
	}
	w.mu.Unlock()
	if !same {
		w.host.postLater(w.key, &posting{worker: w, status: status, report: report})
	}
	return status.Phase
}

// postLast hands over the pod's last status. The pod is deleted after it.
func (w *worker) postLast(ctx context.Context, status corev1.PodStatus) {
	w.mu.Lock()
	w.status = &status
	w.mu.Unlock()
	w.host.postLater(w.key, &posting{worker: w, status: status, last: true, report: trace.From(ctx)})
}

func (h *Host) postLater(key objects.Key, p *posting) {
	h.posts.put(key, p, true)
	h.wakePosts(key)
}

// postIfNone hands a status over that is nothing new: one that waits goes before it.
func (h *Host) postIfNone(key objects.Key, p *posting) {
	h.posts.put(key, p, false)
	h.wakePosts(key)
}

func (h *Host) wakePosts(key objects.Key) {
	h.mu.Lock()
	wake := h.wakePost
	h.mu.Unlock()
	if wake != nil {
		wake(key, 0)
	}
}

// post writes the status that waits for the pod of key.
func (h *Host) post(ctx context.Context, key objects.Key) (time.Duration, error) {
	next := h.posts.take(key)
	if next == nil {
		return 0, nil
	}
	ctx = trace.With(ctx, next.report.Causes...)
	for _, s := range next.report.Stages {
		trace.Add(ctx, s.Name, s.Start, s.Took)
	}
	err := next.worker.write(ctx, next)
	if apierrors.IsNotFound(err) {
		return 0, nil // it is gone, and its worker will hear of it
	}
	if err != nil {
		h.posts.put(key, next, false) // unless there is a newer one by now
	}
	return 0, err
}

// write brings the API's pod to the given status, and deletes the pod when that was the last one.
func (w *worker) write(ctx context.Context, p *posting) error {
	pod, ok := w.host.pod(w.key)
	if !ok || pod.UID != w.uid {
		return nil
	}
	pod = w.host.posts.newest(pod)
	status := p.status
	status.Conditions = append(foreign(pod.Status.Conditions), own(p.status.Conditions)...)
	if !equality.Semantic.DeepEqual(pod.Status, status) {
		if err := w.update(ctx, pod, status); err != nil {
			return err
		}
	}
	if !p.last {
		return nil
	}
	grace, uid := int64(0), w.uid
	_, err := w.client.Delete(ctx, client.In(client.Pods, w.key), metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err == nil || apierrors.IsNotFound(err) {
		w.host.posts.forget(w.uid)
		return nil
	}
	return err
}

func own(list []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range list {
		if slices.Contains(ownConditions, c.Type) {
			out = append(out, c)
		}
	}
	return out
}

// update writes the status over the pod that it was made for: should somebody else have written meanwhile, the write is
// refused and made anew over the newer pod. (A patch would do without that, and cost several times as much.)
func (w *worker) update(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	next := pod.DeepCopy()
	next.Status = status
	got, err := w.client.Update(ctx, client.In(client.Pods, w.key).Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	written, ok := got.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("update pod status: the answer is a %T", got)
	}
	w.host.posts.wrote(written)
	return nil
}
