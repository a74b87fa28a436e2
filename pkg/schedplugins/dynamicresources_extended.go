package schedplugins

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// A DeviceClass may provide an extended resource (its extendedResourceName). A pod that requests the resource gets devices of the class, on nodes that do not have
// the resource themselves: PreBind makes a claim for them, and names it in the pod's status.

// unnamed is the name of such a claim before it is created. It is no valid name, so that no other claim has it.
const unnamed = "<extended-resources>"

// extendedDevices is what one scheduling cycle knows of a pod's extended resources that classes provide.
type extendedDevices struct {
	amounts []amount                  // of all extended resources of the pod, by name
	stale   *resourcev1.ResourceClaim // that an earlier cycle made for the pod, and whose pod was not bound; nil: none
}

// extendedClaim is the claim that a pod needs on one node.
type extendedClaim struct {
	claim    *resourcev1.ResourceClaim
	mappings []corev1.ContainerExtendedResourceRequest
}

// isExtended reports whether a class may provide a resource.
func isExtended(name corev1.ResourceName) bool {
	return scheduler.ExtendedResource(name) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

// delegated reports whether the pod requests a resource that a class provides.
func delegated(pod *corev1.Pod, classes framework.DeviceClassResolver) bool {
	asks := func(list corev1.ResourceList) bool {
		for name, q := range list {
			if isExtended(name) && !q.IsZero() && classes.GetDeviceClass(name) != nil {
				return true
			}
		}
		return false
	}
	for i := range pod.Spec.Containers {
		if asks(pod.Spec.Containers[i].Resources.Requests) {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if asks(pod.Spec.InitContainers[i].Resources.Requests) {
			return true
		}
	}
	return false
}

// unsignedDevices is the status of a pod that is not signed: its results depend on the devices that are taken.
func unsignedDevices() *framework.Status {
	return framework.NewStatus(framework.Unschedulable, "signature disabled when dra extended resources are used in the cluster")
}

// extendedOf returns what is known of a pod's extended resources, nil if no class provides one of them.
func (d *dynamicResources) extendedOf(pod *corev1.Pod) (*extendedDevices, error) {
	if !delegated(pod, d.devices.DeviceClassResolver()) {
		return nil, nil
	}
	e := &extendedDevices{}
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if v := q.Value(); v != 0 && isExtended(name) {
			e.amounts = append(e.amounts, amount{name, v})
		}
	}
	slices.SortFunc(e.amounts, func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	all, err := d.devices.ResourceClaims().List()
	if err != nil {
		return nil, err
	}
	for _, claim := range all {
		if isExtendedClaim(claim, pod) {
			e.stale = claim
		}
	}
	return e, nil
}

// isExtendedClaim reports whether a claim was made for the extended resources of a pod.
func isExtendedClaim(claim *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(claim, pod)
}

// extendedOn returns the claim that the pod needs for its extended resources on a node, nil if the node has them without devices.
func (d *dynamicResources) extendedOn(s *podDevices, pod *corev1.Pod, info framework.NodeInfo) (*extendedClaim, *framework.Status) {
	switch {
	case s.extended == nil:
		return nil, nil
	case s.extended.stale != nil:
		return nil, unresolvable("cannot schedule extended resource claim")
	}
	classes := d.devices.DeviceClassResolver()
	var needed []namedClass
	for _, a := range s.extended.amounts {
		has, ok := info.GetAllocatable().GetScalarResources()[a.name]
		class := classes.GetDeviceClass(a.name)
		switch {
		case class != nil && has == 0:
			needed = append(needed, namedClass{a.name, class.Name})
		case !ok:
			return nil, unresolvable("cannot fit resource")
		}
	}
	if len(needed) == 0 {
		return nil, nil
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: unnamed, GenerateName: pod.Name + "-extended-resources-", UID: "extended-resources-of-" + pod.UID,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}}
	out := &extendedClaim{claim: claim}
	for _, of := range needed {
		requests, mappings := of.requests(pod)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, requests...)
		out.mappings = append(out.mappings, mappings...)
	}
	slices.SortFunc(claim.Spec.Devices.Requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// namedClass is an extended resource, and the class that provides it.
type namedClass struct {
	resource corev1.ResourceName
	class    string
}

// requests returns the requests for the devices of a pod's containers, and which container uses which of them. Init containers that end use
// the devices of the containers that start after them, and need others only if these are not enough. They share those, since they run one
// after the other.
func (n namedClass) requests(pod *corev1.Pod) (requests []resourcev1.DeviceRequest, mappings []corev1.ContainerExtendedResourceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	lasting := make([]*resourcev1.DeviceRequest, len(containers))
	for i := range containers {
		if i >= len(pod.Spec.InitContainers) || isSidecar(&containers[i]) {
			var used []corev1.ContainerExtendedResourceRequest
			lasting[i], used = n.request(i, &containers[i], nil)
			mappings = append(mappings, used...)
		}
	}
	extra, used := n.initRequest(containers[:len(pod.Spec.InitContainers)], lasting)
	if extra != nil {
		requests = append(requests, *extra)
	}
	for _, r := range lasting {
		if r != nil {
			requests = append(requests, *r)
		}
	}
	return requests, append(mappings, used...)
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// initRequest returns the request for the devices that init containers need beside those of the lasting containers, nil if there are none.
func (n namedClass) initRequest(inits []corev1.Container, lasting []*resourcev1.DeviceRequest) (most *resourcev1.DeviceRequest, mappings []corev1.ContainerExtendedResourceRequest) {
	extra := map[string]bool{}
	for i := range inits {
		if isSidecar(&inits[i]) {
			continue
		}
		r, used := n.request(i, &inits[i], lasting[i:])
		mappings = append(mappings, used...)
		if r == nil {
			continue
		}
		extra[r.Name] = true
		if most == nil || most.Exactly.Count < r.Exactly.Count {
			most = r
		}
	}
	for i := range mappings {
		if extra[mappings[i].RequestName] {
			mappings[i].RequestName = most.Name
		}
	}
	return most, mappings
}

// request returns the request for the devices of a container, nil if it needs none but the reusable ones, and those that it uses. The name has
// the index of the container, and that of the resource among the container's requests.
func (n namedClass) request(index int, c *corev1.Container, reusable []*resourcev1.DeviceRequest) (*resourcev1.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	q := c.Resources.Requests[n.resource]
	want, ok := q.AsInt64()
	if !ok || want == 0 {
		return nil, nil
	}
	var mappings []corev1.ContainerExtendedResourceRequest
	use := func(request string) {
		mappings = append(mappings, corev1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(n.resource), RequestName: request})
	}
	for _, r := range reusable {
		if r == nil {
			continue
		}
		use(r.Name)
		if want -= r.Exactly.Count; want <= 0 {
			return nil, mappings
		}
	}
	before := 0
	for name := range c.Resources.Requests {
		if name < n.resource {
			before++
		}
	}
	r := &resourcev1.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", index, before), Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: n.class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: want,
	}}
	use(r.Name)
	return r, mappings
}

// createExtended creates the claim of c, which is that of the pod's extended resources.
func (d *dynamicResources) createExtended(ctx context.Context, pod *corev1.Pod, c *podClaim) error {
	api, err := d.api()
	if err != nil {
		return err
	}
	claim := c.extended.claim.DeepCopy()
	claim.Name, claim.UID = "", ""
	created, err := api.Client().Create(withCause(ctx, pod), client.Target{Resource: resourceClaims, Namespace: claim.Namespace}, claim, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create claim for extended resources %s/: %w", pod.Namespace, err)
	}
	c.ResourceClaim = created.(*resourcev1.ResourceClaim)
	return nil
}

// nameExtended names the claim of c in the pod's status.
func (d *dynamicResources) nameExtended(ctx context.Context, pod *corev1.Pod, c *podClaim) error {
	api, err := d.api()
	if err != nil {
		return err
	}
	status := corev1.PodExtendedResourceClaimStatus{RequestMappings: c.extended.mappings, ResourceClaimName: c.Name}
	if err := scheduler.PatchPodStatus(withCause(ctx, pod), api.Client(), pod, map[string]any{"extendedResourceClaimStatus": status}); err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// unreserveExtended deletes the claim of c if PreBind has created it.
func (d *dynamicResources) unreserveExtended(ctx context.Context, pod *corev1.Pod, c *podClaim) {
	if c.Name == unnamed {
		return
	}
	if err := d.deleteClaim(ctx, pod, c.ResourceClaim); err != nil {
		slog.ErrorContext(ctx, "claim for extended resources not deleted", "pod", pod.Namespace+"/"+pod.Name, "claim", c.Name, "err", err)
	}
}

// deleteClaim deletes a claim without its finalizer.
func (d *dynamicResources) deleteClaim(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	if all, ok := simulation(d.handle); ok {
		all.Delete(framework.ResourceClaim, objects.Key{Namespace: claim.Namespace, Name: claim.Name})
		return nil
	}
	api, err := d.api()
	if err != nil {
		return err
	}
	at := client.In(resourceClaims, objects.Key{Namespace: claim.Namespace, Name: claim.Name})
	for attempt := 1; ; attempt++ {
		claim = claim.DeepCopy()
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		if _, err = d.update(ctx, pod, claim, ""); !apierrors.IsConflict(err) || attempt == maxConflicts {
			break
		}
		obj, err := api.Client().Get(withCause(ctx, pod), at, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get resourceclaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		claim = obj.(*resourcev1.ResourceClaim)
	}
	if err != nil {
		return fmt.Errorf("update resourceclaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err = api.Client().Delete(withCause(ctx, pod), at, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &claim.UID}})
	return err
}
