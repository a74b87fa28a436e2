package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The shortest times that a pod has to end, and that a container has after its preStop hook.
const (
	leastGrace      = 1
	leastAfterHook  = 2 * time.Second
	defaultEndGrace = 30
)

// end brings a pod that shall not run any more nearer to its end: it stops what runs, then reports how it ended, and takes
// it away when it is deleted.
func (w *worker) end(ctx context.Context, pod *corev1.Pod) error {
	seen, known := w.view(w.uid)
	if !w.stop(ctx, pod, seen) {
		w.post(ctx, pod, seen)
		return nil
	}
	if pod.DeletionTimestamp == nil {
		w.unmount()
		w.post(ctx, pod, seen)
		return nil
	}
	w.mu.Lock()
	status := w.generate(pod, seen)
	w.removed = true
	w.mu.Unlock()
	if known {
		if err := w.runtime.StopPod(ctx, w.uid); err != nil {
			w.mu.Lock()
			w.removed = false
			w.mu.Unlock()
			return err
		}
		w.look(ctx, w.key)
	}
	w.unmount()
	w.dropFolders(pod) // while the API still has the pod: a kubelet that dies here is followed by one that comes here
	w.postLast(ctx, status)
	return nil
}

// gone ends a pod that is no more in the API.
func (w *worker) gone(ctx context.Context) error {
	seen, known := w.view(w.uid)
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	if pod == nil {
		pod = strayPod(seen)
	}
	if !w.stop(ctx, pod, seen) {
		return nil
	}
	w.unmount()
	w.dropFolders(pod) // while the runtime still has the pod: nobody else knows of it
	if known {
		if err := w.runtime.StopPod(ctx, w.uid); err != nil {
			return err
		}
		w.look(ctx, w.key)
	}
	w.host.forget(w)
	return nil
}

// strayPod stands for a pod of which only the runtime knows.
func strayPod(seen Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}}
	for _, c := range seen.Containers {
		if found, _ := container(pod, c.Name); found == nil {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image.Name})
		}
	}
	return pod
}

// grace returns how many seconds the pod has to end.
func (w *worker) grace(pod *corev1.Pod) int64 {
	grace := int64(defaultEndGrace)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	return max(grace, leastGrace)
}

// stop makes all containers of the pod end and reports whether they have. It does not wait for them: the worker is woken
// when they have.
func (w *worker) stop(ctx context.Context, pod *corev1.Pod, seen Pod) bool {
	grace := w.grace(pod)
	w.mu.Lock()
	if w.ending == nil && !seen.running() && len(w.busy) == 0 {
		w.ending = &ending{grace: grace, stopped: true}
		w.stopProbes()
	}
	if e := w.ending; e != nil && (e.stopped || e.grace <= grace) {
		defer w.mu.Unlock()
		return e.stopped
	}
	first := w.ending == nil
	e := &ending{grace: grace}
	w.ending = e
	w.stopProbes()
	w.mu.Unlock()
	w.tasks.Go(func() {
		if !w.terminateAll(ctx, pod, seen, time.Duration(grace)*time.Second, first) {
			return
		}
		w.mu.Lock()
		if w.ending == e {
			e.stopped = true
		}
		w.mu.Unlock()
		w.host.wake(w.key, 0)
	})
	return false
}

// stopAgain is when a container is stopped again that the runtime could not stop.
const stopAgain = time.Second

// terminateAll terminates the pod until none of its containers runs, and reports whether that is so: ctx may end before.
func (w *worker) terminateAll(ctx context.Context, pod *corev1.Pod, seen Pod, grace time.Duration, hooks bool) bool {
	for {
		w.terminate(ctx, pod, seen, grace, hooks)
		if ctx.Err() != nil {
			return false
		}
		w.look(ctx, w.key)
		if seen, _ = w.view(w.uid); !seen.running() {
			return true
		}
		if clock.Sleep(ctx, w.host.Clock, stopAgain) != nil {
			return false
		}
		hooks = false
	}
}

// terminate stops the pod's containers: first those of the pod itself, all at once, then the sidecars, the last one first.
func (w *worker) terminate(ctx context.Context, pod *corev1.Pod, seen Pod, grace time.Duration, hooks bool) {
	began := w.host.Clock.Now()
	var wg sync.WaitGroup
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if last, ok := seen.latest(c.Name); ok && last.Running {
			wg.Go(func() { w.kill(ctx, pod, c, last, "", grace, hooks) })
		}
	}
	wg.Wait()
	for _, c := range slices.Backward(pod.Spec.InitContainers) {
		if last, ok := seen.latest(c.Name); ok && last.Running {
			left := max(0, grace-w.host.Clock.Since(began))
			w.kill(ctx, pod, &c, last, "", left, hooks)
		}
	}
	for _, c := range seen.Containers { // whatever the pod's spec does not know
		if c.Running {
			w.stopContainer(ctx, c, max(0, grace-w.host.Clock.Since(began)))
		}
	}
}

// kill stops one container: its preStop hook first, then the program. message is that of the Event, "": the usual one.
func (w *worker) kill(ctx context.Context, pod *corev1.Pod, c *corev1.Container, run Container, message string, grace time.Duration, hooks bool) {
	if message == "" {
		message = "Stopping container " + c.Name
	}
	began := w.host.Clock.Now()
	if hooks {
		_, path := container(pod, c.Name)
		w.event(ctx, pod, path, corev1.EventTypeNormal, "Killing", message)
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && !w.Tier.Simulated && grace > 0 {
			if err := w.hook(ctx, pod, c, run, c.Lifecycle.PreStop, grace); err != nil && ctx.Err() == nil {
				w.event(ctx, pod, path, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
			grace = max(grace-w.host.Clock.Since(began), leastAfterHook)
		}
	}
	w.stopContainer(ctx, run, grace)
}

func (w *worker) stopContainer(ctx context.Context, c Container, grace time.Duration) {
	if err := w.runtime.Stop(ctx, c.ID, grace); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot stop container", "pod", w.key.String(), "container", c.Name, "err", err)
	}
}

// restart stops one container of a pod that goes on running. What comes then is planned when it has ended.
func (w *worker) restart(ctx context.Context, pod *corev1.Pod, k killing) {
	grace := time.Duration(w.grace(pod)) * time.Second
	if k.grace != nil {
		grace = time.Duration(max(*k.grace, leastGrace)) * time.Second
	}
	w.mu.Lock()
	w.busy[k.spec.Name] = corev1.ContainerStateWaiting{}
	w.mu.Unlock()
	w.tasks.Go(func() {
		w.kill(ctx, pod, k.spec, k.container, k.message, grace, true)
		w.free(ctx, k.spec.Name)
	})
}

// free ends what a container was busy with.
func (w *worker) free(ctx context.Context, name string) {
	if ctx.Err() != nil {
		return
	}
	w.look(ctx, w.key)
	w.mu.Lock()
	delete(w.busy, name)
	w.mu.Unlock()
	w.host.wake(w.key, 0)
}
