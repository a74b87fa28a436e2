package eviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// Disk is what files take on a disk.
type Disk struct{ Bytes, Inodes int64 }

// Add adds the files of o.
func (d *Disk) Add(o Disk) {
	d.Bytes += o.Bytes
	d.Inodes += o.Inodes
}

// Container is what a container uses.
type Container struct {
	Name         string
	Memory       int64 // in bytes; negative: unknown
	Rootfs, Logs Disk
}

// Pod is what a pod uses.
type Pod struct {
	Containers []Container
	Volumes    map[string]Disk // the local volumes by name
}

// memory returns the memory of all containers.
func (p Pod) memory() int64 {
	sum := int64(0)
	for _, c := range p.Containers {
		sum += max(0, c.Memory)
	}
	return sum
}

// localVolume reports whether a volume takes disk of the node for as long as its pod exists.
func localVolume(v *corev1.Volume) bool {
	return v.GitRepo != nil || v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}

// disk returns what the pod takes on disk: its containers, their logs, and its local volumes.
func (p Pod) disk(pod *corev1.Pod) Disk {
	var sum Disk
	for _, c := range p.Containers {
		sum.Add(c.Rootfs)
		sum.Add(c.Logs)
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; localVolume(v) || v.HostPath != nil {
			sum.Add(p.Volumes[v.Name])
		}
	}
	return sum
}

// Of returns what the pod uses of a resource.
func (p Pod) Of(name corev1.ResourceName, pod *corev1.Pod) int64 {
	switch name {
	case corev1.ResourceMemory:
		return p.memory()
	case corev1.ResourceEphemeralStorage:
		return p.disk(pod).Bytes
	case inodes:
		return p.disk(pod).Inodes
	}
	return 0
}

func request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	q := podresources.PodRequests(pod, podresources.PodResourcesOptions{})[name]
	return q.Value()
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
