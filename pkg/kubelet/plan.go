package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// plan is what is to be done for a pod that is to run.
type plan struct {
	start  []*corev1.Container // in this order
	kill   []killing
	waits  []waits // containers that are to start, but not yet
	after  time.Duration
	finish bool // nothing of it will run again
}

// killing is a running container that has to go, and why.
type killing struct {
	container Container
	spec      *corev1.Container
	message   string // of its Event
	grace     *int64
}

// waits is a container in back-off.
type waits struct {
	spec  *corev1.Container
	pause time.Duration // all of it
}

// health is what a plan needs to know of a container beside what the runtime shows.
type health struct {
	started func(Container) bool     // its startup probe, if it has one, has passed
	sick    func(Container) *killing // nil: none of its probes asks for a restart
	back    map[string]backoff
	busy    func(name string) bool // it is being started or stopped
	now     time.Time
}

// planPod compares what a pod wants with what runs. It decides nothing about pods that are to end.
func planPod(pod *corev1.Pod, seen Pod, h health) plan {
	var p plan
	if !p.init(pod, seen, h) {
		return p
	}
	alive := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if p.container(pod, c, seen, h, restarts) {
			alive = true
		}
	}
	if !alive {
		return plan{finish: true}
	}
	return p
}

// init plans the init containers, one after the other, and reports whether the pod's containers may run.
func (p *plan) init(pod *corev1.Pod, seen Pod, h health) bool {
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
			p.container(pod, c, seen, h, restartsInit)
			if !begun && (!ok || !last.Running || !h.started(last)) {
				return false
			}
			continue
		}
		if begun || ok && !last.Running && last.ExitCode == 0 {
			continue
		}
		if !p.container(pod, c, seen, h, restartsInit) {
			p.finish = true
		}
		return false
	}
	return true
}

// container plans one container and reports whether it runs or will run again.
func (p *plan) container(pod *corev1.Pod, c *corev1.Container, seen Pod, h health, again func(*corev1.Pod, *corev1.Container, int) bool) bool {
	if h.busy(c.Name) {
		return true
	}
	last, ok := seen.latest(c.Name)
	switch {
	case !ok:
		p.start = append(p.start, c)
		return true
	case last.Running && last.Image.Name != "" && last.Image.Name != c.Image:
		p.kill = append(p.kill, killing{container: last, spec: c, message: "Container " + c.Name + " definition changed, will be restarted"})
		return true
	case last.Running:
		if k := h.sick(last); k != nil {
			k.container, k.spec = last, c
			if again(pod, c, 137) {
				k.message += ", will be restarted"
			}
			p.kill = append(p.kill, *k)
		}
		return true
	case !again(pod, c, last.ExitCode) && last.Image.Name == c.Image:
		return false
	}
	b := h.back[c.Name]
	if left := b.until(last.Finished, h.now); left > 0 {
		p.waits = append(p.waits, waits{spec: c, pause: b.pause})
		if p.after == 0 || left < p.after {
			p.after = left
		}
		return true
	}
	p.start = append(p.start, c)
	return true
}
