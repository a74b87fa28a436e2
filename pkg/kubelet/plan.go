package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// plan is the next steps of a running pod.
type plan struct {
	start    []*corev1.Container // in this order
	kill     []containerToKill
	resize   []containerToResize
	backoff  []containerInBackoff
	after    time.Duration // of the next plan, for a container in backoff; 0: none
	finished bool          // no container runs or will be started again
}

// containerToKill is a running container to stop.
type containerToKill struct {
	container Container
	spec      *corev1.Container
	message   string // of its Event; "": the usual one
	grace     *int64
	restart   bool // start it again, whatever its exit code and its restart policy
}

// containerToResize is a running container that gets other limits.
type containerToResize struct {
	container Container
	spec      *corev1.Container
	limits    Limits
}

// containerInBackoff is a container that waits for its next start.
type containerInBackoff struct {
	spec  *corev1.Container
	pause time.Duration // the whole backoff
}

// planInput is what a plan needs beside the runtime's view of the pod.
type planInput struct {
	probes interface {
		started(id ContainerID) bool
		unhealthy(id ContainerID) *containerToKill
	}
	lifecycle interface {
		backoff(name string) backoff
		isBusy(name string) bool
		isRestarting(run Container) bool
	}
	now       time.Time
	resizable bool // the runtime is a Resizer
}

// planPod compares a pod's spec with its containers and returns the next steps. It does not plan the end of a pod.
func planPod(pod *corev1.Pod, seen Pod, in planInput) plan {
	var p plan
	p.planEphemeral(pod, seen)
	if !p.planInit(pod, seen, in) {
		return p
	}
	alive := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if p.planContainer(pod, c, seen, in, restarts) {
			alive = true
		}
	}
	if !alive {
		return plan{finished: true}
	}
	return p
}

// planEphemeral plans the ephemeral containers. They start at once, also before and beside init containers, and never again.
func (p *plan) planEphemeral(pod *corev1.Pod, seen Pod) {
	list := ephemeralContainers(pod)
	for i := range list {
		if _, ok := seen.latest(list[i].Name); ok {
			continue
		}
		if s := statusOf(pod.Status.EphemeralContainerStatuses, list[i].Name); s != nil && s.ContainerID != "" {
			continue // the runtime has lost it
		}
		p.start = append(p.start, &list[i])
	}
}

// planInit plans the init containers, one after the other, and reports whether the app containers may run.
func (p *plan) planInit(pod *corev1.Pod, seen Pod, in planInput) bool {
	begun := false
	for i := range pod.Spec.Containers {
		if _, ok := seen.latest(pod.Spec.Containers[i].Name); ok {
			begun = true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		last, ok := seen.latest(c.Name)
		if isSidecar(c) {
			p.planContainer(pod, c, seen, in, restartsInit)
			if !begun && (!ok || !last.Running || !in.probes.started(last.ID)) {
				return false
			}
			continue
		}
		if begun || ok && !last.Running && last.ExitCode == 0 {
			continue
		}
		if !p.planContainer(pod, c, seen, in, restartsInit) {
			p.finished = true
		}
		return false
	}
	return true
}

// planContainer plans one container and reports whether it runs or will run again. again is its restart policy.
func (p *plan) planContainer(pod *corev1.Pod, c *corev1.Container, seen Pod, in planInput, again func(*corev1.Pod, *corev1.Container, int) bool) bool {
	if in.lifecycle.isBusy(c.Name) {
		return true
	}
	last, ok := seen.latest(c.Name)
	restarting := ok && !last.Running && in.lifecycle.isRestarting(last)
	switch {
	case !ok:
		p.start = append(p.start, c)
		return true
	case last.Running && last.Image.Name != "" && last.Image.Name != c.Image:
		p.kill = append(p.kill, containerToKill{
			container: last, spec: c, message: "Container " + c.Name + " definition changed, will be restarted", restart: true,
		})
		return true
	case last.Running:
		if k := in.probes.unhealthy(last.ID); k != nil {
			k.container, k.spec, k.restart = last, c, restartsUnhealthy(pod, c)
			if k.restart {
				k.message += ", will be restarted"
			}
			p.kill = append(p.kill, *k)
			return true
		}
		if in.resizable {
			p.planResize(pod, c, last)
		}
		return true
	case !restarting && !again(pod, c, last.ExitCode) && last.Image.Name == c.Image:
		return false
	}
	b := in.lifecycle.backoff(c.Name)
	if left := b.until(failedAt(seen, last, restarting), in.now); left > 0 {
		p.backoff = append(p.backoff, containerInBackoff{spec: c, pause: b.pause})
		if p.after == 0 || left < p.after {
			p.after = left
		}
		return true
	}
	p.start = append(p.start, c)
	return true
}

// failedAt returns the time of the failure from which the backoff of a container's next start counts. last is its newest start, which has ended.
// For one that the kubelet has stopped to start it again, it is the end of the start before; zero without one.
func failedAt(seen Pod, last Container, restarting bool) time.Time {
	if !restarting {
		return last.Finished
	}
	if attempts := seen.attempts(last.Name); len(attempts) > 1 {
		return attempts[1].Finished
	}
	return time.Time{}
}
