package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// prepareResize restores all but resources and resize policies from old. It keeps added, removed and reordered containers, which
// validation rejects.
func prepareResize(p, old *corev1.Pod) {
	podspec.DropGated(&p.Spec)
	if len(p.Spec.Containers) == len(old.Spec.Containers) && len(p.Spec.InitContainers) == len(old.Spec.InitContainers) {
		resources := p.Spec.Resources
		containers := onlyResources(p.Spec.Containers, old.Spec.Containers)
		initContainers := onlyResources(p.Spec.InitContainers, old.Spec.InitContainers)
		p.Spec, p.Status = old.Spec, old.Status
		metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
		p.Spec.Containers, p.Spec.InitContainers, p.Spec.Resources = containers, initContainers, resources
	}
	check.Generation(p, old, func() bool { return !check.Same(&p.Spec, &old.Spec) })
}

// onlyResources returns the old containers with the resources of the new ones.
func onlyResources(now, old []corev1.Container) []corev1.Container {
	if len(now) == 0 {
		return now
	}
	out := make([]corev1.Container, len(old))
	for i := range old {
		if now[i].Name != old[i].Name {
			return now
		}
		out[i] = old[i]
		out[i].Resources, out[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	return out
}

func validateResize(p, old *corev1.Pod) field.ErrorList {
	if why := cannotResize(old); why != "" {
		return field.ErrorList{field.Forbidden(field.NewPath(""), why)}
	}
	errs := whole(p, old)
	if quality(old) != podspec.QOS(&p.Spec) {
		errs = append(errs, field.Invalid(check.Spec, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !canResize(old) {
		errs = append(errs, field.Forbidden(check.Spec, "Pod running on node without support for resize"))
	}
	now := p.Spec // a shallow copy, in which mutable fields are restored
	if hasPodResources(p) || hasPodResources(old) {
		errs = append(errs, podLevelResize(p.Spec.Resources, old.Spec.Resources)...)
		now.Resources = sizeOf(p.Spec.Resources, old.Spec.Resources)
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		errs = append(errs, field.Forbidden(check.Spec, "pods with node allocatable resource claims cannot be resized"))
	}
	others := append(moved(p.Spec.Containers, old.Spec.Containers, "containers"), moved(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if len(others) > 0 {
		return append(errs, others...)
	}
	errs = append(errs, removedAny(p.Spec.InitContainers, old.Spec.InitContainers, check.Spec.Child("initContainers"))...)
	errs = append(errs, removedAny(p.Spec.Containers, old.Spec.Containers, check.Spec.Child("containers"))...)
	errs = append(errs, otherThanResources(p, old)...)
	if len(errs) > 0 {
		return errs
	}
	now.Containers, now.InitContainers = old.Spec.Containers, old.Spec.InitContainers // otherwise equal
	if !equality.Semantic.DeepEqual(&now, &old.Spec) {
		errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources are mutable"))
	}
	return errs
}

// quality returns the QoS class in a pod's status, or else computes it.
func quality(p *corev1.Pod) corev1.PodQOSClass {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass
	}
	return podspec.QOS(&p.Spec)
}

// hasPodResources reports whether a pod has pod-level resources.
func hasPodResources(p *corev1.Pod) bool {
	return p.Spec.Resources != nil && len(p.Spec.Resources.Requests)+len(p.Spec.Resources.Limits) > 0
}

// podLevelResize checks a change of pod-level resources.
func podLevelResize(now, was *corev1.ResourceRequirements) field.ErrorList {
	at := check.Spec.Child("resources")
	if was != nil && now == nil {
		return field.ErrorList{field.Forbidden(at, "pod-level resources cannot be removed")}
	}
	var errs field.ErrorList
	if was != nil && lacksResource(now.Requests, was.Requests) {
		errs = append(errs, field.Forbidden(at.Child("requests"), "pod-level resource requests cannot be removed"))
	}
	if was != nil && lacksResource(now.Limits, was.Limits) {
		errs = append(errs, field.Forbidden(at.Child("limits"), "pod-level resource limits cannot be removed"))
	}
	if !equality.Semantic.DeepEqual(sizeOf(now, was), was) {
		errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

// sizeOf returns the new pod-level resources with the old CPU and memory; nil if there are no others
// than before.
func sizeOf(now, was *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if now == nil {
		return nil
	}
	out := *now
	if was != nil {
		out.Requests, out.Limits = sizeBack(now.Requests, was.Requests), sizeBack(now.Limits, was.Limits)
		return &out
	}
	out.Requests, out.Limits = sizeBack(now.Requests, nil), sizeBack(now.Limits, nil)
	if len(out.Requests)+len(out.Limits)+len(out.Claims) == 0 {
		return nil
	}
	return &out
}

// sizeBack returns list with the CPU and memory values of old.
func sizeBack(list, old corev1.ResourceList) corev1.ResourceList {
	if list == nil && old == nil {
		return nil
	}
	out := maps.Clone(list)
	if out == nil {
		out = corev1.ResourceList{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(out, name)
		if q, ok := old[name]; ok {
			out[name] = q
		}
	}
	return out
}

// cannotResize returns why a pod can never be resized, or "".
func cannotResize(old *corev1.Pod) string {
	_, static := old.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case static:
		return "static pods cannot be resized"
	case old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows:
		return "windows pods cannot be resized"
	}
	return ""
}

// canResize reports whether the pod's node supports resizes, whose kubelet then reports the resources of running containers.
func canResize(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.State.Running != nil {
			return s.Resources != nil
		}
	}
	return true
}

// moved rejects added, removed and reordered containers.
func moved(now, old []corev1.Container, list string) field.ErrorList {
	at := check.Spec.Child(list)
	if len(now) != len(old) {
		return field.ErrorList{field.Forbidden(at, list+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range old {
		if now[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(at.Index(i).Child("name"), list+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

func lacksResource(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// removedAny rejects the removal of a request or limit.
func removedAny(now, old []corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range old {
		now, old, at := &now[i].Resources, &old[i].Resources, at.Index(i).Child("resources")
		if lacksResource(now.Requests, old.Requests) {
			errs = append(errs, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
		}
		if lacksResource(now.Limits, old.Limits) {
			errs = append(errs, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
		}
	}
	return errs
}

// otherThanResources rejects changes other than of CPU and memory. An init container with the invalid
// policy RestartContainer, which old servers accepted, cannot be resized.
func otherThanResources(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	for i := range p.Spec.Containers {
		if !sameButSize(&p.Spec.Containers[i], &old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources are mutable"))
		}
	}
	for i := range p.Spec.InitContainers {
		now, was, at := &p.Spec.InitContainers[i], &old.Spec.InitContainers[i], check.Spec.Child("initContainers").Index(i)
		if !sameButSize(now, was) {
			errs = append(errs, field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		sidecar := now.RestartPolicy != nil && *now.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if sidecar || equality.Semantic.DeepEqual(now, was) {
			continue
		}
		for j := range now.ResizePolicy {
			if now.ResizePolicy[j].RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	return errs
}

// sameButSize compares containers without CPU and memory. As in Kubernetes the comparison ignores claims of the old container, so
// that a container with claims can't be resized.
func sameButSize(now, old *corev1.Container) bool {
	a := *now
	a.Resources = corev1.ResourceRequirements{
		Limits:   sizeBack(now.Resources.Limits, old.Resources.Limits),
		Requests: sizeBack(now.Resources.Requests, old.Resources.Requests),
	}
	return equality.Semantic.DeepEqual(&a, old)
}
