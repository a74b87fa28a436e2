package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func defaultPod(p *corev1.Pod) {
	podspec.Default(&p.Spec)
	for i := range p.Spec.Containers {
		requestLimits(&p.Spec.Containers[i].Resources)
	}
	for i := range p.Spec.InitContainers {
		requestLimits(&p.Spec.InitContainers[i].Resources)
	}
	podspec.DefaultPodResources(p)
	if grace := p.Spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	if p.Spec.EnableServiceLinks == nil {
		p.Spec.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	if p.Spec.HostNetwork {
		hostPorts(p.Spec.Containers)
		hostPorts(p.Spec.InitContainers)
	}
	defaultPodStatus(&p.Status)
}

// requestLimits sets missing requests to the limits.
func requestLimits(r *corev1.ResourceRequirements) {
	if r.Limits != nil && r.Requests == nil {
		r.Requests = make(corev1.ResourceList, len(r.Limits))
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// hostPorts sets the host ports of the containers of a pod with hostNetwork.
func hostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if port := &containers[i].Ports[j]; port.HostPort == 0 {
				port.HostPort = port.ContainerPort
			}
		}
	}
}

func defaultPodStatus(s *corev1.PodStatus) {
	if s.PodIP == "" && len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	if s.PodIP != "" && len(s.PodIPs) == 0 {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	if s.PodIP != "" && s.PodIP != s.PodIPs[0].IP {
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}} // an older kubelet sets podIP only
	}
}

func preparePod(p, old *corev1.Pod) {
	podspec.SyncServiceAccount(&p.Spec)
	podspec.DropGated(&p.Spec)
	if old == nil {
		p.Generation = 1
		quality := p.Status.QOSClass // kept if a client sets it
		if quality == "" {
			quality = podspec.QOS(&p.Spec)
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: quality}
		gated(p)
		podspec.MergeMatchLabelKeys(&p.Spec, p.Labels)
		podspec.AppArmorFields(&p.Spec, p.Annotations)
		return
	}
	p.Status = old.Status
	check.Generation(p, old, func() bool { return !check.Same(&p.Spec, &old.Spec) })
}

// gated sets the condition PodScheduled of a new pod with scheduling gates.
func gated(p *corev1.Pod) {
	if len(p.Spec.SchedulingGates) == 0 {
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
		Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: p.CreationTimestamp,
	})
}

func preparePodStatus(p, old *corev1.Pod) {
	p.Spec = old.Spec
	p.DeletionTimestamp = old.DeletionTimestamp
	p.OwnerReferences = old.OwnerReferences
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	keepObserved(&p.Status, &old.Status)
	dropGatedStatus(&p.Status)
}

// dropGatedStatus removes status fields of disabled feature gates.
func dropGatedStatus(s *corev1.PodStatus) {
	s.NodeAllocatableResourceClaimStatuses = nil
	for _, list := range []*[]corev1.ContainerStatus{&s.ContainerStatuses, &s.InitContainerStatuses, &s.EphemeralContainerStatuses} {
		if !slices.ContainsFunc(*list, hasVolumeStatus) {
			continue
		}
		*list = slices.Clone(*list) // may be shared
		for i := range *list {
			mounts := slices.Clone((*list)[i].VolumeMounts)
			for j := range mounts {
				mounts[j].VolumeStatus = nil
			}
			(*list)[i].VolumeMounts = mounts
		}
	}
}

func hasVolumeStatus(s corev1.ContainerStatus) bool {
	return slices.ContainsFunc(s.VolumeMounts, func(m corev1.VolumeMountStatus) bool { return m.VolumeStatus != nil })
}

// keepObserved restores observed generations that an older client has dropped. Conditions of the same
// type are matched in order.
func keepObserved(s, old *corev1.PodStatus) {
	if s.ObservedGeneration == 0 {
		s.ObservedGeneration = old.ObservedGeneration
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.ObservedGeneration != 0 {
			continue
		}
		if j := nth(old.Conditions, c.Type, count(s.Conditions[:i], c.Type)); j >= 0 {
			c.ObservedGeneration = old.Conditions[j].ObservedGeneration
		}
	}
}

func count(conditions []corev1.PodCondition, kind corev1.PodConditionType) int {
	n := 0
	for i := range conditions {
		if conditions[i].Type == kind {
			n++
		}
	}
	return n
}

// nth returns the index of the n-th condition of a type, or -1.
func nth(conditions []corev1.PodCondition, kind corev1.PodConditionType, n int) int {
	for i := range conditions {
		if conditions[i].Type != kind {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}
