package kubelet

import corev1 "k8s.io/api/core/v1"

// tally counts containers by their state.
type tally struct {
	running, waiting, stopped, succeeded, final int // final: stopped, and the restart policy forbids a restart
	pendingInit, unstartedSidecars              int
	failedInit                                  bool
	begun                                       bool // an app container has been started
}

// phaseOf returns the pod's phase from the statuses of its containers. stopped: no container will run again. restarting reports whether the
// kubelet has stopped a container to start it again.
func phaseOf(pod *corev1.Pod, s corev1.PodStatus, stopped bool, restarting func(name string) bool) corev1.PodPhase {
	var t tally
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if isSidecar(c) {
			t.sidecar(statusOf(s.InitContainerStatuses, c.Name))
		} else {
			t.init(pod, c, statusOf(s.InitContainerStatuses, c.Name))
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		t.container(pod, c, statusOf(s.ContainerStatuses, c.Name), restarting)
	}
	switch {
	case t.failedInit:
		return corev1.PodFailed
	case t.pendingInit > 0, t.unstartedSidecars > 0 && !t.begun, t.waiting > 0:
		return corev1.PodPending
	case t.running > 0:
		return corev1.PodRunning
	case t.stopped == 0:
		return corev1.PodPending
	case !stopped && t.stopped != t.final:
		return corev1.PodRunning
	case t.stopped == t.succeeded:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// ended returns the last end of a container that does not run, nil if it never ran.
func ended(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case s.State.Terminated != nil:
		return s.State.Terminated
	case s.State.Waiting != nil:
		return s.LastTerminationState.Terminated
	}
	return nil
}

func (t *tally) init(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus) {
	if s == nil {
		t.pendingInit++
		return
	}
	e := ended(s)
	switch {
	case e == nil:
		t.pendingInit++
	case e.ExitCode != 0 && !restartsInit(pod, c, int(e.ExitCode)):
		t.failedInit = true
	}
}

func (t *tally) sidecar(s *corev1.ContainerStatus) {
	switch {
	case s == nil:
		t.unstartedSidecars++
	case s.State.Running != nil:
		t.running++
		if s.Started == nil || !*s.Started {
			t.unstartedSidecars++
		}
	case s.State.Waiting != nil && s.LastTerminationState.Terminated == nil:
		t.unstartedSidecars++
		t.waiting++
	}
}

func (t *tally) container(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus, restarting func(name string) bool) {
	if s == nil {
		t.waiting++
		return
	}
	e := ended(s)
	switch {
	case s.State.Running != nil:
		t.running++
		t.begun = true
	case e == nil:
		t.waiting++
	default:
		t.begun = true
		t.stopped++
		if !restarts(pod, c, int(e.ExitCode)) && !restarting(c.Name) {
			t.final++
		}
		if e.ExitCode == 0 {
			t.succeeded++
		}
	}
}
