package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// job is what the pods of a Job have done on the nodes of a Cluster. It is forgotten with the last of them.
type job struct {
	began  time.Time      // the start of the first pod
	starts map[string]int // by container
}

// own adds a pod to those of its controller. The caller holds c.mu.
func (c *Cluster) own(p *pod) {
	if p.OwnerUID == "" {
		return
	}
	if c.owned[p.OwnerUID] == nil {
		c.owned[p.OwnerUID] = map[*pod]struct{}{}
		if p.OwnerKind == "Job" {
			c.jobs[p.OwnerUID] = &job{began: p.Started, starts: map[string]int{}}
		}
	}
	c.owned[p.OwnerUID][p] = struct{}{}
}

// disown removes a pod from those of its controller. The caller holds c.mu.
func (c *Cluster) disown(p *pod) {
	delete(c.owned[p.OwnerUID], p)
	if len(c.owned[p.OwnerUID]) == 0 {
		delete(c.owned, p.OwnerUID)
		delete(c.jobs, p.OwnerUID)
	}
}

// history returns what the rules of a container that starts depend on, and counts the start. The caller holds c.mu.
func (c *Cluster) history(p *pod, spec kubelet.ContainerSpec, now time.Time) history {
	if j := c.jobs[p.OwnerUID]; j != nil {
		h := history{now.Sub(j.began), j.starts[spec.Name]}
		j.starts[spec.Name]++
		return h
	}
	return history{now.Sub(p.born()), spec.Attempt}
}

// born is since when the pod exists.
func (p *pod) born() time.Time {
	if p.Created.IsZero() {
		return p.Started
	}
	return p.Created
}

// Pull implements kubelet.Simulator.
func (n *node) Pull(pod *corev1.Pod, c *corev1.Container) error {
	if len(pod.Annotations) == 0 || check(pod.Annotations) != nil { // Start returns the error
		return nil
	}
	after := duration(pod.Annotations, PullAfter, c.Name, 0)
	if after == 0 || after > 0 && n.cluster.clock.Since(pod.CreationTimestamp.Time) >= after {
		return nil
	}
	return fmt.Errorf("failed to resolve reference %q: not found", c.Image)
}

// ReadyAfter implements kubelet.Simulator.
func (n *node) ReadyAfter(pod *corev1.Pod, container string) time.Duration {
	if len(pod.Annotations) == 0 {
		return 0
	}
	return duration(pod.Annotations, ReadyAfter, container, 0)
}
