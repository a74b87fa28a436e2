package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
)

// The shortest grace periods: of a pod in seconds, and of a container after its preStop hook.
const (
	minGrace          = 1
	minGraceAfterHook = 2 * time.Second
	defaultGrace      = 30
)

// gracePeriod returns how many seconds the pod has to end.
func gracePeriod(pod *corev1.Pod) int64 {
	grace := int64(defaultGrace)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	return max(grace, minGrace)
}

// stop stops all containers of the pod within a grace period in seconds, and reports whether they have ended. It does not wait for them: the pod is enqueued
// when they have. A call with a shorter grace period replaces the stop in progress.
func (l *podLifecycle) stop(ctx context.Context, pod *corev1.Pod, seen Pod, grace int64) bool {
	l.mu.Lock()
	if l.stopping == nil && !seen.running() && len(l.busy) == 0 {
		l.stopping = &podStop{grace: grace, done: true}
		l.prober.stop()
	}
	if s := l.stopping; s != nil && (s.done || s.grace <= grace) {
		defer l.mu.Unlock()
		return s.done
	}
	first := l.stopping == nil
	s := &podStop{grace: grace}
	l.stopping = s
	l.prober.stop()
	l.mu.Unlock()
	ctx, work := l.begin(ctx)
	l.tasks.Go(func() {
		defer work.End()
		ctx, end := l.takeTurn(ctx, "")
		defer end()
		if !l.stopUntilDone(ctx, pod, seen, time.Duration(grace)*time.Second, first) {
			return
		}
		l.mu.Lock()
		if l.stopping == s {
			s.done = true
		}
		l.mu.Unlock()
		l.enqueue()
	})
	return false
}

// stopRetry is the pause after a failed stop of a container, before the next attempt.
const stopRetry = time.Second

// stopUntilDone stops the containers until none runs. It returns false if ctx ends before.
func (l *podLifecycle) stopUntilDone(ctx context.Context, pod *corev1.Pod, seen Pod, grace time.Duration, hooks bool) bool {
	for {
		l.stopAll(ctx, pod, seen, grace, hooks)
		if ctx.Err() != nil {
			return false
		}
		l.relist(ctx)
		if seen, _ = l.seen(); !seen.running() {
			return true
		}
		if clock.Sleep(ctx, l.machineClock(), stopRetry) != nil {
			return false
		}
		hooks = false
	}
}

// stopAll stops the pod's containers: first the app and the ephemeral containers, all at once, then the sidecars in reverse order.
func (l *podLifecycle) stopAll(ctx context.Context, pod *corev1.Pod, seen Pod, grace time.Duration, hooks bool) {
	began := l.machineClock().Now()
	var wg sync.WaitGroup
	for _, c := range slices.Concat(pod.Spec.Containers, ephemeralContainers(pod)) {
		if last, ok := seen.latest(c.Name); ok && last.Running {
			wg.Go(func() { l.kill(ctx, pod, containerToKill{container: last, spec: &c}, grace, hooks) })
		}
	}
	wg.Wait()
	for _, c := range slices.Backward(pod.Spec.InitContainers) {
		if last, ok := seen.latest(c.Name); ok && last.Running {
			left := max(0, grace-l.machineClock().Since(began))
			l.kill(ctx, pod, containerToKill{container: last, spec: &c}, left, hooks)
		}
	}
	for _, c := range seen.Containers { // those that are not in the pod's spec
		if c.Running {
			l.stopContainer(ctx, pod, c, false, max(0, grace-l.machineClock().Since(began)))
		}
	}
}

// kill stops one container: it runs the preStop hook, then stops the program.
func (l *podLifecycle) kill(ctx context.Context, pod *corev1.Pod, k containerToKill, grace time.Duration, hooks bool) {
	c, run, message := k.spec, k.container, k.message
	if message == "" {
		message = "Stopping container " + c.Name
	}
	began := l.machineClock().Now()
	if hooks {
		_, path := container(pod, c.Name)
		l.event(ctx, pod, path, corev1.EventTypeNormal, "Killing", message)
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && !l.simulated() && grace > 0 {
			if err := l.runHook(ctx, pod, c, run, c.Lifecycle.PreStop, grace); err != nil && ctx.Err() == nil {
				l.event(ctx, pod, path, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
			}
			grace = max(grace-l.machineClock().Since(began), minGraceAfterHook)
		}
	}
	l.stopContainer(ctx, pod, run, k.restart, grace)
}

// stopContainer stops the container's program. With restart, the runtime records that the container will be started again, if it can. An
// error of the runtime is logged and recorded as an Event.
func (l *podLifecycle) stopContainer(ctx context.Context, pod *corev1.Pod, c Container, restart bool, grace time.Duration) {
	stop := l.runtime().Stop
	if r, ok := l.runtime().(Restarter); ok && restart {
		stop = r.StopToRestart
	}
	if err := stop(ctx, c.ID, grace); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot stop container", "pod", l.key.String(), "container", c.Name, "err", err)
		l.event(ctx, pod, "", corev1.EventTypeWarning, "FailedKillPod", fmt.Sprintf("error killing pod: container %q: %v", c.Name, err))
	}
}

// restart stops one container of a pod that keeps running. The next sync starts it again, if k.restart is set or its restart policy says so.
func (l *podLifecycle) restart(ctx context.Context, pod *corev1.Pod, k containerToKill) {
	grace := time.Duration(gracePeriod(pod)) * time.Second
	if k.grace != nil {
		grace = time.Duration(max(*k.grace, minGrace)) * time.Second
	}
	l.setBusy(k.spec.Name, corev1.ContainerStateWaiting{})
	if k.restart {
		l.mu.Lock()
		put(&l.restarting, k.spec.Name, k.container.ID)
		l.mu.Unlock()
	}
	ctx, work := l.begin(ctx)
	l.tasks.Go(func() {
		defer work.End()
		ctx, end := l.takeTurn(ctx, k.spec.Name)
		defer end()
		l.kill(ctx, pod, k, grace, true)
		l.endBusy(ctx, k.spec.Name)
	})
}
