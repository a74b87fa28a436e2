package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOS returns the QoS class of a pod by its requests and limits of CPU and memory.
func QOS(s *corev1.PodSpec) corev1.PodQOSClass {
	sum := totals{guaranteed: true}
	if s.Resources != nil {
		sum.add(s.Resources)
	} else {
		for i := range s.Containers {
			sum.add(&s.Containers[i].Resources)
		}
		for i := range s.InitContainers {
			sum.add(&s.InitContainers[i].Resources)
		}
	}
	switch {
	case !sum.any:
		return corev1.PodQOSBestEffort
	case sum.guaranteed && sum.equal():
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

type totals struct {
	requests, limits   [2]resource.Quantity // of CPU and memory
	requested, limited [2]bool
	any                bool
	guaranteed         bool // every container limits both
}

var qosResources = [2]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func (t *totals) add(r *corev1.ResourceRequirements) {
	for i, name := range qosResources {
		if q, ok := r.Requests[name]; ok && q.Sign() > 0 {
			t.requests[i].Add(q)
			t.requested[i], t.any = true, true
		}
		if q, ok := r.Limits[name]; ok && q.Sign() > 0 {
			t.limits[i].Add(q)
			t.limited[i], t.any = true, true
		} else {
			t.guaranteed = false
		}
	}
}

// equal reports whether requests and limits are equal.
func (t *totals) equal() bool {
	for i := range t.requests {
		if t.requested[i] != t.limited[i] || t.requests[i].Cmp(t.limits[i]) != 0 {
			return false
		}
	}
	return true
}
