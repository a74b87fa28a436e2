package kubelet

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// podLifecycle starts and stops the containers of a pod, with their hooks and restart backoffs.
type podLifecycle struct {
	*podScope
	prober  *prober
	volumes *podVolumes
	images  *podImages

	mu       sync.Mutex
	backoffs map[string]backoff                      // by container
	waiting  map[string]corev1.ContainerStateWaiting // why a container does not run, by its name
	busy     map[string]corev1.ContainerStateWaiting // containers in a postStart hook or a stop, and the state to show meanwhile
	refused  []Container                             // the newest start of each container that the runtime refused
	stopping *podStop                                // nil: the pod is not being stopped

	restarting map[string]ContainerID // by container, the start that the kubelet stops to start the container again
}

// podStop is the progress of stopping a pod.
type podStop struct {
	grace int64
	done  bool // no container runs, and none will start
}

// lifecycleState is a copy of the data that a pod's status needs.
type lifecycleState struct {
	waiting, busy     map[string]corev1.ContainerStateWaiting
	refused           []Container
	stopping, stopped bool
	restarting        map[string]ContainerID
}

func (l *podLifecycle) state() lifecycleState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lifecycleState{
		waiting: maps.Clone(l.waiting), busy: maps.Clone(l.busy), refused: slices.Clone(l.refused),
		stopping: l.stopping != nil, stopped: l.stopping != nil && l.stopping.done,
		restarting: maps.Clone(l.restarting),
	}
}

// withRefused adds the starts that the runtime refused to its view of the pod.
func (l *podLifecycle) withRefused(seen Pod) Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return seen.with(l.refused)
}

// with adds refused starts. A refused start that the runtime lists has succeeded: only its response was lost.
func (p Pod) with(refused []Container) Pod {
	for _, c := range refused {
		if last, ok := p.latest(c.Name); !ok || last.Attempt < c.Attempt {
			p.Containers = append(slices.Clone(p.Containers), c)
		}
	}
	return p
}

// backoff returns a container's restart backoff.
func (l *podLifecycle) backoff(name string) backoff {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backoffs[name]
}

// isBusy reports whether a postStart hook or a stop of the container runs.
func (l *podLifecycle) isBusy(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.busy[name]
	return ok
}

// isRestarting reports whether this or an earlier kubelet has stopped this start of a container to start the container again.
func (l *podLifecycle) isRestarting(run Container) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return run.Restart || run.ID != "" && l.restarting[run.Name] == run.ID
}

// setBusy marks a container as busy. A state with a reason hides that the container runs.
func (l *podLifecycle) setBusy(name string, state corev1.ContainerStateWaiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	put(&l.busy, name, state)
}

// endBusy ends the mark of setBusy and requests a sync.
func (l *podLifecycle) endBusy(ctx context.Context, name string) {
	if ctx.Err() != nil {
		return
	}
	l.relist(ctx)
	l.mu.Lock()
	delete(l.busy, name)
	l.mu.Unlock()
	l.enqueue()
}

// setWaiting stores why a container does not run and reports whether that has changed.
func (l *podLifecycle) setWaiting(name string, state corev1.ContainerStateWaiting) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[name] == state {
		return false
	}
	put(&l.waiting, name, state)
	return true
}

// recordBackoffs shows the containers in backoff as CrashLoopBackOff, with an Event when the state changes.
func (l *podLifecycle) recordBackoffs(ctx context.Context, pod *corev1.Pod, list []containerInBackoff) {
	for _, b := range list {
		state := corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: "back-off " + b.pause.String() + " restarting failed container=" + b.spec.Name + " pod=" + logName(pod),
		}
		if l.setWaiting(b.spec.Name, state) {
			_, path := container(pod, b.spec.Name)
			l.event(ctx, pod, path, corev1.EventTypeWarning, "BackOff",
				"Back-off restarting failed container "+b.spec.Name+" in pod "+logName(pod))
		}
	}
}

// removeOld removes all but the two newest starts of each container, with their logs.
func (l *podLifecycle) removeOld(ctx context.Context, pod *corev1.Pod, seen Pod) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			attempts := seen.attempts(list[i].Name)
			for _, old := range attempts[min(2, len(attempts)):] {
				if old.Running {
					continue
				}
				if err := l.runtime().Remove(ctx, old.ID); err == nil {
					l.volumes.removeLog(pod, old)
				}
			}
		}
	}
}
