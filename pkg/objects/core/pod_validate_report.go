package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// extendedClaim checks the ResourceClaim of a pod's extended resources and its mapping to container requests.
func extendedClaim(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	mappings := at.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	for i := range s.RequestMappings {
		errs = append(errs, requestMapping(s.RequestMappings[:i+1], spec, mappings.Index(i), at.Child("requestName"))...)
	}
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(at.Child("resourceClaimName"), ""))
	}
	return append(errs, check.Subdomain(s.ResourceClaimName, at, "resourceClaimName")...)
}

// requestMapping checks the last of some mappings. Errors of its request's name have the path of the status.
func requestMapping(mappings []corev1.ContainerExtendedResourceRequest, spec *corev1.PodSpec, at, request *field.Path) field.ErrorList {
	const unknown = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
	var errs field.ErrorList
	m := &mappings[len(mappings)-1]
	if c := containerNamed(spec, m.ContainerName); c == nil {
		errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName, unknown))
	} else if _, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !ok {
		errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName,
			"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
	}
	errs = append(errs, check.Label(m.RequestName, request)...)
	if slices.Contains(mappings[:len(mappings)-1], *m) {
		errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName),
			field.Duplicate(at.Child("resourceName"), m.ResourceName), field.Duplicate(at.Child("requestName"), m.RequestName))
	}
	return errs
}

func containerNamed(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// containerReports checks the users and the resource health of containers that a kubelet
// reports.
func containerReports(p *corev1.Pod, at *field.Path) field.ErrorList {
	lists := []struct {
		name       string
		statuses   []corev1.ContainerStatus
		containers []corev1.Container
	}{
		{"containerStatuses", p.Status.ContainerStatuses, p.Spec.Containers},
		{"initContainerStatuses", p.Status.InitContainerStatuses, p.Spec.InitContainers},
		{"ephemeralContainerStatuses", p.Status.EphemeralContainerStatuses, nil},
	}
	var errs field.ErrorList
	for _, l := range lists {
		for i := range l.statuses {
			errs = append(errs, containerUser(l.statuses[i].User, p.Spec.OS, at.Child(l.name).Index(i).Child("user", "linux"))...)
		}
	}
	for _, l := range lists[:2] {
		for i := range l.statuses {
			errs = append(errs, allocatedStatus(&l.statuses[i], l.containers, at.Child(l.name).Index(i).Child("allocatedResourcesStatus"))...)
		}
	}
	for i := range lists[2].statuses {
		if len(lists[2].statuses[i].AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(at.Child(lists[2].name).Index(i).Child("allocatedResourcesStatus"), "must not be specified in container status"))
		}
	}
	return errs
}

func containerUser(u *corev1.ContainerUser, system *corev1.PodOS, at *field.Path) field.ErrorList {
	if u == nil || u.Linux == nil {
		return nil
	}
	if system != nil && system.Name != corev1.Linux {
		if system.Name == corev1.Windows {
			return field.ErrorList{field.Forbidden(at, "cannot be set for a windows pod")}
		}
		return nil
	}
	errs := check.Invalid(at.Child("uid"), u.Linux.UID, utilvalidation.IsValidUserID(u.Linux.UID))
	errs = append(errs, check.Invalid(at.Child("gid"), u.Linux.GID, utilvalidation.IsValidGroupID(u.Linux.GID))...)
	for i, group := range u.Linux.SupplementalGroups {
		errs = append(errs, check.Invalid(at.Child("supplementalGroups").Index(i), group, utilvalidation.IsValidGroupID(group))...)
	}
	return errs
}

var healths = []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown}

// allocatedStatus checks the health of a container's allocated resources.
func allocatedStatus(s *corev1.ContainerStatus, containers []corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == s.Name })
	for j := range s.AllocatedResourcesStatus {
		r, idx := &s.AllocatedResourcesStatus[j], at.Index(j)
		if i >= 0 {
			if why := notRequested(r.Name, &containers[i].Resources); why != "" {
				errs = append(errs, field.Invalid(idx.Child("name"), r.Name, why))
			}
		}
		for k := range r.Resources {
			errs = append(errs, health(r.Resources[:k+1], idx.Child("resources").Index(k))...)
		}
	}
	return errs
}

// notRequested returns an error text if the container does not request the resource, or "".
func notRequested(name corev1.ResourceName, r *corev1.ResourceRequirements) string {
	if claim, ok := strings.CutPrefix(string(name), "claim:"); ok {
		if slices.ContainsFunc(r.Claims, func(c corev1.ResourceClaim) bool {
			return c.Request == "" && claim == c.Name || c.Request != "" && claim == c.Name+"/"+c.Request
		}) {
			return ""
		}
		return "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
	}
	if _, ok := r.Requests[name]; ok {
		return ""
	}
	return "must match one of the container's resource requests"
}

// health checks the last of some reports.
func health(reports []corev1.ResourceHealth, at *field.Path) field.ErrorList {
	r := &reports[len(reports)-1]
	errs := check.OneOf(r.Health, healths, at, "health")
	if r.Message != nil {
		switch n := len(*r.Message); {
		case n == 0:
			errs = append(errs, field.Required(at.Child("message"), "must be non-empty if specified"))
		case n > corev1.ResourceHealthMessageMaxLength:
			errs = append(errs, field.TooLong(at.Child("message"), *r.Message, corev1.ResourceHealthMessageMaxLength))
		}
	}
	if slices.ContainsFunc(reports[:len(reports)-1], func(o corev1.ResourceHealth) bool { return o.ResourceID == r.ResourceID }) {
		errs = append(errs, field.Duplicate(at.Child("resourceID"), r.ResourceID))
	}
	return errs
}
