package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summary has the cells of a pod's row in kubectl get.
type summary struct {
	ready, total int
	state        string
	restarts     restarts
}

type restarts struct {
	count int32
	last  metav1.Time // when the last restarted container terminated
}

func (r *restarts) add(s *corev1.ContainerStatus) {
	r.count += s.RestartCount
	if t := s.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

func summarize(p *corev1.Pod) summary {
	s := summary{total: len(p.Spec.Containers), state: string(p.Status.Phase)}
	if p.Status.Reason != "" {
		s.state = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.state = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	sidecarRestarts, initializing := s.initContainers(p, sidecars)
	if !initializing || conditionTrue(p, corev1.PodInitialized) {
		s.restarts = sidecarRestarts
		s.containers(p)
	}
	if p.DeletionTimestamp != nil {
		s.deleting(p)
	}
	return s
}

// initContainers counts the init containers up to the one that the pod waits for, if any. It returns the
// restarts of sidecars, which count while the pod runs, too.
func (s *summary) initContainers(p *corev1.Pod, sidecars map[string]bool) (restarts, bool) {
	var kept restarts
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.restarts.add(c)
		if sidecars[c.Name] {
			kept.add(c)
		}
		switch ended, waiting := c.State.Terminated, c.State.Waiting; {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.state = "Init:" + endReason(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.state = "Init:" + waiting.Reason
		default:
			s.state = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return kept, true
	}
	return kept, false
}

// containers counts the containers. The status is that of the first container with a reason.
func (s *summary) containers(p *corev1.Pod) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.state = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.state = endReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.state == "Completed" && running {
		s.state = "NotReady"
		if conditionTrue(p, corev1.PodReady) {
			s.state = "Running"
		}
	}
}

func (s *summary) deleting(p *corev1.Pod) {
	switch {
	case p.Status.Reason == "NodeLost":
		s.state = "Unknown"
	case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		s.state = "Terminating"
	}
}

func endReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
