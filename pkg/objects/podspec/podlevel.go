package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

var podLevel = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory}

func podResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := ResourceName(name, at); errs != nil {
		return errs
	}
	if !resourcehelper.IsSupportedPodLevelResource(name) {
		return field.ErrorList{field.NotSupported(at, name, podLevel)}
	}
	return nil
}

// podResources checks pod-level resources, also against those of containers.
func (v *validator) podResources(at *field.Path) field.ErrorList {
	r := v.spec.Resources
	if r == nil {
		return nil
	}
	at = at.Child("resources")
	if v.spec.OS != nil && v.spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(at, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, validateResources(r, podResource, v.claims, at)...)
	sum := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *v.spec}, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(sum) {
		want := sum[name]
		if have, ok := r.Requests[name]; ok && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), have.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", want.String())))
		}
	}
	sum = resourcehelper.AggregateContainerLimits(&corev1.Pod{Spec: *v.spec}, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(sum) {
		want := sum[name]
		if have, ok := r.Limits[name]; ok && isHugePage(name) && want.Cmp(have) > 0 {
			errs = append(errs, field.Invalid(at.Child("limits").Key(string(name)), have.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", want.String())))
		}
	}
	for i := range v.spec.Containers {
		limits := v.spec.Containers[i].Resources.Limits
		for _, name := range sorted(limits) {
			limit := limits[name]
			if most, ok := r.Limits[name]; ok && limit.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(at.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", most.String())))
			}
		}
	}
	return errs
}

// DefaultPodResources sets defaults of pod-level resources: requests from the containers' requests
// or from the pod's limits, and limits from the containers' limits if all containers have them.
func DefaultPodResources(p *corev1.Pod) {
	r := p.Spec.Resources
	if r == nil {
		return
	}
	requested := len(r.Requests) > 0
	hugePageLimits(p)
	if len(r.Limits) > 0 {
		requestsFromContainers(p)
	}
	if requested {
		limitsFromContainers(p)
	}
}

// hugePageLimits sets the pod's limits of huge pages to the sum of the containers' requests, since huge pages can't be overcommitted.
func hugePageLimits(p *corev1.Pod) {
	r := p.Spec.Resources
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	limits := resourcehelper.AggregateContainerLimits(p, resourcehelper.PodResourcesOptions{})
	for _, name := range sorted(limits) {
		if _, ok := r.Limits[name]; ok || !isHugePage(name) {
			continue
		}
		if _, ok := r.Requests[name]; !ok {
			setQuantity(&r.Limits, name, limits)
		}
	}
}

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, from corev1.ResourceList) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	q := from[name]
	(*list)[name] = q.DeepCopy()
}

func requestsFromContainers(p *corev1.Pod) {
	r := p.Spec.Resources
	sum := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
	for name := range sum {
		if _, ok := r.Requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) && !isHugePage(name) {
			setQuantity(&r.Requests, name, sum)
		}
	}
	for name := range r.Limits {
		if _, ok := r.Requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
			setQuantity(&r.Requests, name, r.Limits)
		}
	}
}

func limitsFromContainers(p *corev1.Pod) {
	r := p.Spec.Resources
	sum := resourcehelper.AggregateContainerLimits(p, resourcehelper.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		_, limited := r.Limits[name]
		if _, ok := sum[name]; ok && !limited && allLimit(p.Spec.Containers, name) && allLimit(p.Spec.InitContainers, name) {
			setQuantity(&r.Limits, name, sum)
		}
	}
}

func allLimit(containers []corev1.Container, name corev1.ResourceName) bool {
	for i := range containers {
		if _, ok := containers[i].Resources.Limits[name]; !ok {
			return false
		}
	}
	return true
}
