package kubelet

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resizeRetry is the pause after a resize has failed, before the next attempt.
const resizeRetry = 10 * time.Second

// planResize plans other limits for a running container whose spec has been resized, or its restart if its resize policy asks for that.
func (p *plan) planResize(pod *corev1.Pod, c *corev1.Container, run Container) {
	wanted := limits(pod, c)
	if run.Limits == wanted {
		return
	}
	changed := map[corev1.ResourceName]bool{
		corev1.ResourceCPU: run.Limits.MilliCPU != wanted.MilliCPU, corev1.ResourceMemory: run.Limits.Memory != wanted.Memory,
	}
	if slices.ContainsFunc(c.ResizePolicy, func(r corev1.ContainerResizePolicy) bool {
		return r.RestartPolicy == corev1.RestartContainer && changed[r.ResourceName]
	}) {
		p.kill = append(p.kill, containerToKill{container: run, spec: c, message: "Container " + c.Name + " resize requires restart", restart: true})
		return
	}
	p.resize = append(p.resize, containerToResize{run, c, wanted})
}

// resize gives a running container other limits and reports whether it has them. A positive duration requests another sync after it.
func (l *podLifecycle) resize(ctx context.Context, r containerToResize) (bool, time.Duration) {
	resizer, ok := l.runtime().(Resizer)
	if !ok {
		return false, 0
	}
	err := resizer.Resize(ctx, r.container.ID, r.limits)
	if ctx.Err() != nil {
		return false, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.resizeErrors, r.spec.Name)
	if err == nil {
		return true, 0
	}
	put(&l.resizeErrors, r.spec.Name, err.Error())
	return false, resizeRetry
}

// resized returns the resources of a running container: those of its spec with the limits that it has now.
func resized(spec corev1.ResourceRequirements, l Limits) *corev1.ResourceRequirements {
	out := spec.DeepCopy()
	set := func(name corev1.ResourceName, same bool, now *resource.Quantity) {
		switch {
		case same:
		case now.IsZero():
			delete(out.Limits, name)
		default:
			put((*map[corev1.ResourceName]resource.Quantity)(&out.Limits), name, *now)
		}
	}
	set(corev1.ResourceCPU, spec.Limits.Cpu().MilliValue() == l.MilliCPU, resource.NewMilliQuantity(l.MilliCPU, resource.DecimalSI))
	set(corev1.ResourceMemory, spec.Limits.Memory().Value() == l.Memory, resource.NewQuantity(l.Memory, resource.BinarySI))
	return out
}

// resizing returns the condition of a pod with a running container that does not have the limits of its spec yet. ok is false without one.
func (in *statusInput) resizing() (c corev1.PodCondition, ok bool) {
	if !in.resizable {
		return c, false
	}
	c = corev1.PodCondition{
		Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, ObservedGeneration: in.pod.Generation,
		LastTransitionTime: metav1.NewTime(in.now).Rfc3339Copy(),
	}
	for i := range in.pod.Spec.Containers {
		spec := &in.pod.Spec.Containers[i]
		run, started := in.seen.latest(spec.Name)
		if !started || !run.Running || run.Limits == limits(in.pod, spec) {
			continue
		}
		ok = true
		if message := in.lifecycle.resizeErrors[spec.Name]; message != "" {
			c.Reason, c.Message = corev1.PodReasonError, message
		}
	}
	for _, before := range slices.Concat(in.pod.Status.Conditions, in.old.Conditions) {
		if before.Type == c.Type && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	return c, ok
}
