package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allocation owns what the node has allocated to a pod: the resources of its spec, except while a resize waits for room. After a restart of
// the kubelet the pod's status says what was allocated. Safe for concurrent use.
type allocation struct {
	mu        sync.Mutex
	pod       *corev1.Pod                            // the newest from the API; nil before the first sync
	allocated map[string]corev1.ResourceRequirements // of the containers whose spec requests other resources; never changed, only replaced

	pending  *corev1.PodCondition // PodResizePending; nil: no resize waits
	progress *corev1.PodCondition // PodResizeInProgress; nil: no resize is carried out
}

// resizable are the resources that a resize changes.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// resizableContainers calls do with the containers of a pod that can be resized, until do returns false.
func resizableContainers(pod *corev1.Pod) func(do func(*corev1.Container) bool) {
	return func(do func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; isSidecar(c) && !do(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !do(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// observe stores the newest version of the pod and reports whether a resize waits.
func (a *allocation) observe(pod *corev1.Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allocated = a.differing(pod)
	if a.pod == nil {
		a.pending, a.progress = resizeConditions(pod.Status.Conditions)
	}
	a.pod = pod
	if len(a.allocated) == 0 {
		a.pending = nil
	}
	return len(a.allocated) > 0
}

// apply returns the pod with the resources that are allocated to it. It changes no object that pod refers to.
func (a *allocation) apply(pod *corev1.Pod) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return withResources(pod, a.differing(pod))
}

// differing returns what is allocated to the containers of a version of the pod that requests other resources. The caller holds mu.
func (a *allocation) differing(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	switch {
	case a.pod == nil:
		return allocatedByStatus(pod)
	case a.pod.Generation == pod.Generation:
		return a.allocated
	}
	var out map[string]corev1.ResourceRequirements
	for c := range resizableContainers(pod) {
		has, ok := a.allocated[c.Name]
		if !ok {
			before, _ := container(a.pod, c.Name)
			if before == nil {
				continue
			}
			has = before.Resources
		}
		if !sameResizable(has, c.Resources) {
			put(&out, c.Name, has)
		}
	}
	return out
}

// allocatedByStatus returns what the status of a pod says was allocated to the containers whose spec requests other resources.
func allocatedByStatus(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	var out map[string]corev1.ResourceRequirements
	for c := range resizableContainers(pod) {
		s := anyStatusOf(&pod.Status, c.Name)
		if s == nil || s.Resources == nil {
			continue
		}
		has := corev1.ResourceRequirements{Requests: s.AllocatedResources, Limits: s.Resources.Limits, Claims: c.Resources.Claims}
		if !sameResizable(has, c.Resources) {
			put(&out, c.Name, has)
		}
	}
	return out
}

func sameResizable(a, b corev1.ResourceRequirements) bool {
	for _, name := range resizable {
		for _, lists := range [][2]corev1.ResourceList{{a.Requests, b.Requests}, {a.Limits, b.Limits}} {
			if x, y := lists[0][name], lists[1][name]; x.Cmp(y) != 0 {
				return false
			}
		}
	}
	return true
}

// withResources returns a pod whose containers have other resources, by name.
func withResources(pod *corev1.Pod, resources map[string]corev1.ResourceRequirements) *corev1.Pod {
	if len(resources) == 0 {
		return pod
	}
	out := *pod
	for _, list := range []*[]corev1.Container{&out.Spec.InitContainers, &out.Spec.Containers} {
		*list = append([]corev1.Container(nil), *list...)
		for i := range *list {
			if r, ok := resources[(*list)[i].Name]; ok {
				(*list)[i].Resources = r
			}
		}
	}
	return &out
}

// resizeConditions returns the conditions of a resize among others, nil for those that are not there.
func resizeConditions(list []corev1.PodCondition) (pending, progress *corev1.PodCondition) {
	for _, c := range list {
		switch c.Type {
		case corev1.PodResizePending:
			pending = &c
		case corev1.PodResizeInProgress:
			progress = &c
		}
	}
	return pending, progress
}

// conditions returns the conditions of a resize.
func (a *allocation) conditions() []corev1.PodCondition {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []corev1.PodCondition
	for _, c := range []*corev1.PodCondition{a.pending, a.progress} {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// resizeCondition returns a condition of a resize. old is the one before, or nil: it keeps its transition time while its reason is the same.
func resizeCondition(kind corev1.PodConditionType, old *corev1.PodCondition, reason, message string, generation int64, now metav1.Time) *corev1.PodCondition {
	c := &corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation,
		LastProbeTime: now, LastTransitionTime: now,
	}
	if old != nil && old.Reason == reason {
		c.LastProbeTime, c.LastTransitionTime = old.LastProbeTime, old.LastTransitionTime
	}
	return c
}

// allocate observes the newest version of the pod, decides about the resizes that wait on the node if it has one, and returns the pod with the
// resources that are allocated to it.
func (w *podWorker) allocate(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	if w.allocation.observe(pod) {
		w.kubelet.resizes.add(w)
		w.kubelet.allocateResizes(ctx, w)
	} else {
		w.kubelet.resizes.remove(w)
	}
	return w.allocation.apply(pod)
}

// trackResize updates the condition PodResizeInProgress after a sync. pod has the allocated resources. err is the error of a resize, nil if
// none has failed.
func (w *podWorker) trackResize(ctx context.Context, pod *corev1.Pod, seen Pod, err error) {
	resizing := w.resizing(pod, seen)
	a := &w.allocation
	a.mu.Lock()
	old := a.progress
	switch {
	case !resizing:
		a.progress = nil
	case err != nil:
		generation := pod.Generation
		if old != nil {
			generation = old.ObservedGeneration
		}
		a.progress = resizeCondition(corev1.PodResizeInProgress, old, corev1.PodReasonError, err.Error(), generation, w.timestamp())
	case old == nil:
		a.progress = resizeCondition(corev1.PodResizeInProgress, nil, "", "", pod.Generation, w.timestamp())
	}
	now := a.progress
	a.mu.Unlock()
	switch {
	case old != nil && now == nil:
		w.event(ctx, pod, "", corev1.EventTypeNormal, "ResizeCompleted", resizeMessage("Pod resize completed", pod, old.ObservedGeneration, ""))
	case now != nil && now.Reason == corev1.PodReasonError && (old == nil || old.Reason != now.Reason || old.Message != now.Message):
		w.event(ctx, pod, "", corev1.EventTypeWarning, "ResizeError", resizeMessage("Pod resize error", pod, now.ObservedGeneration, now.Message))
	}
}

// resizing reports whether a running container does not have its allocated limits yet, or is stopped to be started with them.
func (w *podWorker) resizing(pod *corev1.Pod, seen Pod) bool {
	if _, ok := w.runtime().(Resizer); !ok {
		return false
	}
	for c := range resizableContainers(pod) {
		run, ok := seen.latest(c.Name)
		if ok && run.Limits != limits(pod, c) && (run.Running || w.lifecycle.isRestarting(run)) {
			return true
		}
	}
	return false
}

func (s *podScope) timestamp() metav1.Time { return metav1.NewTime(s.clock().Now()).Rfc3339Copy() }
