package scheduler

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// resources is an amount of each resource. It is a framework.Resource.
type resources struct {
	cpu, memory, storage int64 // millicores; bytes; bytes
	pods                 int
	scalar               map[corev1.ResourceName]int64
}

var _ framework.Resource = (*resources)(nil)

// resourcesOf converts a resource list.
func resourcesOf(list corev1.ResourceList) resources {
	var r resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.cpu = q.MilliValue()
		case corev1.ResourceMemory:
			r.memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.storage = q.Value()
		case corev1.ResourcePods:
			r.pods = int(q.Value())
		default:
			if isScalar(name) {
				r.setScalar(name, q.Value())
			}
		}
	}
	return r
}

func (r *resources) setScalar(name corev1.ResourceName, value int64) {
	if r.scalar == nil {
		r.scalar = map[corev1.ResourceName]int64{}
	}
	r.scalar[name] = value
}

// add adds sign times o to r, without the number of pods.
func (r *resources) add(o resources, sign int64) {
	r.cpu += sign * o.cpu
	r.memory += sign * o.memory
	r.storage += sign * o.storage
	for name, v := range o.scalar {
		r.setScalar(name, r.scalar[name]+sign*v)
	}
}

func (r resources) clone() resources {
	r.scalar = maps.Clone(r.scalar)
	return r
}

func (r resources) equal(o resources) bool {
	return r.cpu == o.cpu && r.memory == o.memory && r.storage == o.storage && r.pods == o.pods && maps.Equal(r.scalar, o.scalar)
}

// GetMilliCPU and the methods below implement framework.Resource.
func (r *resources) GetMilliCPU() int64                                { return r.cpu }
func (r *resources) GetMemory() int64                                  { return r.memory }
func (r *resources) GetEphemeralStorage() int64                        { return r.storage }
func (r *resources) GetAllowedPodNumber() int                          { return r.pods }
func (r *resources) GetScalarResources() map[corev1.ResourceName]int64 { return r.scalar }

// SetMaxResource raises each amount to the one in list if that is higher.
func (r *resources) SetMaxResource(list corev1.ResourceList) {
	o := resourcesOf(list)
	r.cpu, r.memory, r.storage = max(r.cpu, o.cpu), max(r.memory, o.memory), max(r.storage, o.storage)
	for name, v := range o.scalar {
		r.setScalar(name, max(r.scalar[name], v))
	}
}

// isScalar reports whether a resource is counted in the map instead of its own field: extended resources, huge pages
// and attachable volumes.
func isScalar(name corev1.ResourceName) bool {
	n := string(name)
	switch {
	case strings.HasPrefix(n, corev1.ResourceHugePagesPrefix), strings.HasPrefix(n, corev1.ResourceAttachableVolumesPrefix),
		strings.HasPrefix(n, corev1.ResourceDefaultNamespacePrefix):
		return true
	}
	return strings.Contains(n, "/") && !strings.HasPrefix(n, corev1.DefaultResourceRequestsPrefix)
}

// ResourceOf returns a list of resources as a framework.Resource.
func ResourceOf(list corev1.ResourceList) framework.Resource {
	r := resourcesOf(list)
	return &r
}
