package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// The annotations with what each container of a pod uses, which kwok reads, too. They may change while the pod runs. A suffix of a dot
// and a container's name restricts one to that container. Without either, and for a value that is no quantity, a container reports
// nothing.
const (
	UsageCPU    = "kwok.x-k8s.io/usage-cpu"
	UsageMemory = "kwok.x-k8s.io/usage-memory"
)

// window is the time over which the usage is said to be measured, as by metrics-server.
const window = 15 * time.Second

// Usage implements kubelet.Meter.
func (n *node) Usage(_ context.Context, pods []kubelet.Pod) (map[kubelet.ContainerID]kubelet.Usage, error) {
	out := map[kubelet.ContainerID]kubelet.Usage{}
	now := n.cluster.clock.Now()
	for _, p := range pods {
		for _, c := range p.Containers {
			if used := usage(p.Annotations, c.Name); c.Running && len(used) > 0 {
				out[c.ID] = kubelet.Usage{Time: now, Window: window, Resources: used}
			}
		}
	}
	return out, nil
}

// usage returns what a container uses by the annotations of its pod.
func usage(annotations map[string]string, name string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for resourceName, key := range map[corev1.ResourceName]string{corev1.ResourceCPU: UsageCPU, corev1.ResourceMemory: UsageMemory} {
		text, _ := lookup(annotations, key, name)
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() >= 0 {
			out[resourceName] = q
		}
	}
	return out
}
