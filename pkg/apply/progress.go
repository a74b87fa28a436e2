package apply

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Progress is what a Waiter reports: the progress of an object, or of one of its pods.
type Progress struct {
	Object string // kubectl's name of the object: deployment.apps/web
	Pod    string // the pod's name; "": it is the object's own progress
	Text   string // what is reached, or what is missing
	Waits  string // what the pod waits for, as far as Text does not say so; "" if it waits for nothing
	Gone   bool   // the pod is gone
}

// Line returns the progress as a line of its own.
func (p *Progress) Line() string {
	if p.Pod != "" {
		return "pod/" + p.Pod + "  " + p.Text
	}
	return p.Object + "  " + p.Text
}

// podProgress returns the progress of an object's pod. warning is the last of watchWarnings about the pod, "" for none.
func podProgress(object string, pod *corev1.Pod, change watch.EventType, warning string) Progress {
	p := Progress{Object: object, Pod: pod.Name, Text: podState(pod)}
	if change == watch.Deleted {
		p.Text, p.Gone = "gone", true
	}
	if pod.Spec.NodeName != "" {
		p.Text += "  on " + pod.Spec.NodeName
	}
	if pod.Status.PodIP != "" {
		p.Text += "  at " + pod.Status.PodIP
	}
	why := obstacle(pod)
	if why == "" && starts(pod) {
		why = warning
	}
	if why != "" {
		p.Text += ": " + why
	} else if !p.Gone {
		p.Waits = waitsFor(pod)
	}
	return p
}

// waitsFor returns what a pod waits for that has no obstacle: the scheduler, an init container, a start, a probe or a readiness gate.
func waitsFor(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "the end of its containers"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || podReady(pod):
		return ""
	case pod.Spec.NodeName == "":
		return "the scheduler"
	}
	for i, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated == nil && (c.Started == nil || !*c.Started) {
			return fmt.Sprintf("init container %s, %d of %d", c.Name, i+1, len(pod.Spec.InitContainers))
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Running == nil:
			return "the start of container " + c.Name
		case c.Started != nil && !*c.Started:
			return "the startup probe of container " + c.Name
		case !c.Ready:
			return "the readiness probe of container " + c.Name
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return "the readiness gate " + string(gate.ConditionType)
		}
	}
	return "the kubelet"
}

// obstacle returns why a pod does not run, as the scheduler or the kubelet wrote it in the status; "" if neither did.
func obstacle(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Message != "" {
			return c.State.Waiting.Message
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// podState returns the pod's state as the STATUS column of kubectl get shows it while the pod starts, runs and ends.
func podState(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing" {
			return c.State.Waiting.Reason
		}
	}
	if pod.Status.Phase == corev1.PodRunning && podReady(pod) {
		return "Running, ready"
	}
	return string(pod.Status.Phase)
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
