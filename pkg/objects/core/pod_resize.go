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

// prepareResize takes back all but the resources of containers and of the pod as a whole. If containers came, went or changed places, it leaves
// them for validation to see.
func prepareResize(p, old *corev1.Pod) {
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
	if len(p.Spec.Containers) != len(old.Spec.Containers) || len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(check.Spec, "containers may not be added or removed when resizing"))
	}
	if podspec.QOS(&old.Spec) != podspec.QOS(&p.Spec) {
		errs = append(errs, field.Invalid(check.Spec, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !canResize(old) {
		errs = append(errs, field.Forbidden(check.Spec, "Pod running on node without support for resize"))
	}
	for i := range old.Spec.InitContainers {
		if restarts := old.Spec.InitContainers[i].RestartPolicy; restarts != nil && *restarts == corev1.ContainerRestartPolicyAlways {
			errs = append(errs, removed(&p.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources,
				check.Spec.Child("initContainers").Index(i).Child("resources"))...)
		}
	}
	for i := range old.Spec.Containers {
		errs = append(errs, removed(&p.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources,
			check.Spec.Child("containers").Index(i).Child("resources"))...)
	}
	errs = append(errs, removed(ofPod(p), ofPod(old), check.Spec.Child("resources"))...)
	return append(errs, otherThanResources(p, old)...)
}

// ofPod returns what a pod asks for as a whole.
func ofPod(p *corev1.Pod) *corev1.ResourceRequirements {
	if p.Spec.Resources == nil {
		return &corev1.ResourceRequirements{}
	}
	return p.Spec.Resources
}

// cannotResize says why a pod can never be resized, or "".
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

// canResize reports whether the pod's node can: its kubelet tells the resources of running containers then.
func canResize(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.State.Running != nil {
			return s.Resources != nil
		}
	}
	return true
}

// removed refuses to let a request or limit go.
func removed(now, old *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	lacks := func(now, old corev1.ResourceList) bool {
		for name := range old {
			if _, ok := now[name]; !ok {
				return true
			}
		}
		return false
	}
	var errs field.ErrorList
	if lacks(now.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
	}
	if lacks(now.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
	}
	return errs
}

// otherThanResources refuses what a resize may not change: all but CPU and memory of containers that keep running.
func otherThanResources(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(withoutSize(*ofPod(p)), withoutSize(*ofPod(old))) {
		errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources are mutable"))
	}
	for i := range p.Spec.Containers {
		if !sameButSize(&p.Spec.Containers[i], &old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources are mutable"))
		}
	}
	for i := range p.Spec.InitContainers {
		now, was := &p.Spec.InitContainers[i], &old.Spec.InitContainers[i]
		sidecar := now.RestartPolicy != nil && *now.RestartPolicy == corev1.ContainerRestartPolicyAlways
		switch {
		case sidecar && !sameButSize(now, was):
			errs = append(errs, field.Forbidden(check.Spec, "only cpu and memory resources for sidecar containers are mutable"))
		case !sidecar && !equality.Semantic.DeepEqual(now, was):
			errs = append(errs, field.Forbidden(check.Spec, "resources for non-sidecar init containers are immutable"))
		}
	}
	return errs
}

// sameButSize compares containers without their CPU and memory and their policy of resizing.
func sameButSize(now, old *corev1.Container) bool {
	a, b := *now, *old
	a.Resources, b.Resources = withoutSize(a.Resources), withoutSize(b.Resources)
	a.ResizePolicy, b.ResizePolicy = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

func withoutSize(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	drop := func(list corev1.ResourceList) corev1.ResourceList {
		list = maps.Clone(list)
		delete(list, corev1.ResourceCPU)
		delete(list, corev1.ResourceMemory)
		return list
	}
	return corev1.ResourceRequirements{Limits: drop(r.Limits), Requests: drop(r.Requests), Claims: r.Claims}
}
