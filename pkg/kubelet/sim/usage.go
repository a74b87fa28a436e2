package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// window is the time over which the usage is said to be measured, as by metrics-server.
const window = 15 * time.Second

// Usage implements kubelet.Meter. Without a rule a container reports nothing.
func (n *node) Usage(_ context.Context, pods []kubelet.Pod) (map[kubelet.ContainerID]kubelet.Usage, error) {
	out := map[kubelet.ContainerID]kubelet.Usage{}
	now := n.cluster.clock.Now()
	for _, p := range pods {
		for _, c := range p.Containers {
			if !c.Running {
				continue
			}
			used := usage(p.Annotations, c.Name, func() int { return n.cluster.replicas(p.OwnerUID, c.Name) })
			if len(used) > 0 {
				cpu := time.Duration(used.Cpu().AsApproximateFloat64() * float64(now.Sub(c.Started))) // as if the rule were as old as the container
				out[c.ID] = kubelet.Usage{Time: now, Window: window, CPUTime: cpu, Resources: used}
			}
		}
	}
	return out, nil
}

// usageRules are the rules for what a container uses of a resource: its own usage, and its share of a load.
var usageRules = []struct {
	resource  corev1.ResourceName
	own, load string
}{
	{corev1.ResourceCPU, UsageCPU, LoadCPU},
	{corev1.ResourceMemory, UsageMemory, LoadMemory},
}

// usage returns what a container uses by the annotations of its pod: its own usage and its share of the load. replicas returns how many
// containers share the load.
func usage(annotations map[string]string, name string, replicas func() int) corev1.ResourceList {
	if len(annotations) == 0 {
		return nil
	}
	out := corev1.ResourceList{}
	for _, r := range usageRules {
		used, ok := quantity(annotations, r.own, name)
		if load, shared := quantity(annotations, r.load, name); shared {
			used.Add(*resource.NewMilliQuantity(load.MilliValue()/int64(max(1, replicas())), load.Format))
			ok = true
		}
		if ok {
			out[r.resource] = used
		}
	}
	return out
}

// replicas returns how many containers of a name run in the pods of a controller.
func (c *Cluster) replicas(controller types.UID, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for p := range c.owned[controller] {
		for _, o := range p.Containers {
			if o.Name == name && o.Running {
				count++
			}
		}
	}
	return count
}
