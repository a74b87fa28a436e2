package kubelet

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resizeRetry is the pause after a resize has failed, before the next attempt.
const resizeRetry = 10 * time.Second

// planResize plans other limits for a running container whose spec has been resized, or its restart if its resize policy requires that.
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

// resize gives running containers other limits and reports whether one has them. The error is that of the first that has not.
func (w *podWorker) resize(ctx context.Context, list []containerToResize) (bool, error) {
	resizer, _ := w.runtime().(Resizer) // a plan has resizes only if the runtime is one
	resized := false
	var first error
	for _, r := range list {
		err := resizer.Resize(ctx, r.container.ID, r.limits)
		resized = resized || err == nil
		if first == nil {
			first = err
		}
	}
	if ctx.Err() != nil {
		return resized, nil
	}
	return resized, first
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
