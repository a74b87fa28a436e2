package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// own adds a pod to those of its controller. The caller holds c.mu.
func (c *Cluster) own(p *pod) {
	if p.OwnerUID == "" {
		return
	}
	if c.owned[p.OwnerUID] == nil {
		c.owned[p.OwnerUID] = map[*pod]struct{}{}
	}
	c.owned[p.OwnerUID][p] = struct{}{}
}

// disown removes a pod from those of its controller. The caller holds c.mu.
func (c *Cluster) disown(p *pod) {
	delete(c.owned[p.OwnerUID], p)
	if len(c.owned[p.OwnerUID]) == 0 {
		delete(c.owned, p.OwnerUID)
	}
}

// history returns what the rules of a container that starts depend on, and records the start with the pod's Job.
func (c *Cluster) history(ctx context.Context, p kubelet.Pod, spec kubelet.ContainerSpec) (history, error) {
	now := c.clock.Now()
	own := history{now.Sub(born(p)), spec.Attempt}
	fails := number(p.Annotations, FailTimes, spec.Name, 0) > 0 || duration(p.Annotations, FailFor, spec.Name, 0) > 0
	if p.OwnerKind != "Job" || !fails {
		return own, nil
	}
	h, err := c.jobs.start(ctx, p, spec, now)
	if errors.Is(err, errNoJob) {
		return own, nil
	}
	return h, err
}

// born returns when the pod was created, or started if that is unknown.
func born(p kubelet.Pod) time.Time {
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
