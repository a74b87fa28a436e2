package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/trace"
)

var resourceClaims = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")

func (*dynamicResources) PreBindPreFlight(_ context.Context, state framework.CycleState, _ *corev1.Pod, _ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	result := &framework.PreBindPreFlightResult{AllowParallel: true}
	s, err := podDevicesOf(state)
	if err != nil {
		return result, framework.AsStatus(err)
	}
	if len(s.claims) == 0 {
		return result, framework.NewStatus(framework.Skip) // also if the node has the pod's extended resources without devices
	}
	return result, nil
}

// PreBind writes the allocations and reservations to the claims, and waits until devices with binding conditions are ready.
func (d *dynamicResources) PreBind(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node string) *framework.Status {
	s, err := podDevicesOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	group, err := groupClaimsOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	for i := range s.claims {
		c := &s.claims[i]
		if resourceclaim.IsReservedForPod(pod, c.ResourceClaim, false) {
			continue
		}
		if err := d.bind(ctx, pod, c, group); err != nil {
			return framework.AsStatus(err)
		}
	}
	if !s.conditional() {
		return nil
	}
	d.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, "BindingConditionsPending", "Scheduling", "waiting for binding conditions for device on node %s", node)
	if err := d.awaitConditions(ctx, s, pod.Namespace); err != nil {
		return framework.AsStatus(err)
	}
	return nil
}

// maxConflicts bounds the attempts to write a claim that others write at the same time.
const maxConflicts = 5

// bind writes a claim. That of extended resources is created, and named in the pod's status.
func (d *dynamicResources) bind(ctx context.Context, pod *corev1.Pod, c *podClaim, group groupClaims) error {
	if c.extended == nil {
		return d.bindClaim(ctx, pod, c, group)
	}
	if err := d.createExtended(ctx, pod, c); err != nil {
		d.release(c, false, group)
		return err
	}
	if err := d.bindClaim(ctx, pod, c, group); err != nil {
		return err
	}
	return d.nameExtended(ctx, pod, c)
}

// bindClaim writes the claim's allocation, if it has none yet, and the reservation for the pod. c then has the claim that was written.
func (d *dynamicResources) bindClaim(ctx context.Context, pod *corev1.Pod, c *podClaim, group groupClaims) error {
	claim, written := c.ResourceClaim, false
	var err error
	for attempt := 1; ; attempt++ {
		claim, err = d.reserveFor(ctx, pod, c, claim.DeepCopy())
		if err == nil || !apierrors.IsConflict(err) || attempt == maxConflicts {
			break
		}
		if claim, err = d.newest(ctx, pod, c); err != nil {
			break
		}
	}
	if err == nil {
		written = d.devices.ResourceClaims().AssumeClaimAfterAPICall(claim) == nil
		c.ResourceClaim = claim
	}
	d.release(c, written, group)
	return err
}

// newest returns the newest version of a claim, after a conflict.
func (d *dynamicResources) newest(ctx context.Context, pod *corev1.Pod, c *podClaim) (*resourcev1.ResourceClaim, error) {
	api, err := d.api()
	if err != nil {
		return nil, err
	}
	obj, err := api.Client().Get(withCause(ctx, pod), client.In(resourceClaims, objects.Key{Namespace: c.Namespace, Name: c.Name}), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get updated claim %s/%s after conflict: %w", c.Namespace, c.Name, err)
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

// reserveFor writes the allocation of c, if it has one to write, and the reservation for the pod to a claim, and returns what was written.
// Whether the reservation is possible, the API server decides.
func (d *dynamicResources) reserveFor(ctx context.Context, pod *corev1.Pod, c *podClaim, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	name, what := claim.Namespace+"/"+claim.Name, "reservation"
	switch {
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s got deleted in the meantime", name)
	case c.allocation == nil && claim.Status.Allocation == nil:
		return nil, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	case c.allocation == nil || isWritten(c.allocation, claim.Status.Allocation):
	case claim.Status.Allocation != nil:
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	default:
		what = "allocation and reservation"
		var err error
		if claim, err = d.protect(ctx, pod, claim); err != nil {
			return nil, fmt.Errorf("add finalizer to claim %s: %w", name, err)
		}
		api, err := d.api()
		if err != nil {
			return nil, err
		}
		claim.Status.Allocation = c.allocation.DeepCopy()
		claim.Status.Allocation.AllocationTimestamp = new(metav1.NewTime(api.Clock().Now()))
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	claim, err := d.updateStatus(ctx, pod, claim)
	if err != nil {
		return nil, fmt.Errorf("add %s to claim %s: %w", what, name, err)
	}
	return claim, nil
}

// isWritten reports whether a claim has an allocation already, but for its time: another pod of the group, which shares it, has written it.
func isWritten(a, has *resourcev1.AllocationResult) bool {
	if has == nil {
		return false
	}
	same := *has
	same.AllocationTimestamp = a.AllocationTimestamp
	return equality.Semantic.DeepEqual(*a, same)
}

// protect adds the finalizer to a claim, which the caller may change, and returns a copy of what was written.
func (d *dynamicResources) protect(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	if slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return claim, nil
	}
	claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	claim, err := d.update(ctx, pod, claim, "")
	if err != nil {
		return nil, err
	}
	return claim.DeepCopy(), nil
}

// withCause returns a context whose writes have the pod as their cause.
func withCause(ctx context.Context, pod *corev1.Pod) context.Context {
	return trace.With(ctx, objects.RevisionOf(pod))
}

// api returns the scheduler's access to the API.
func (d *dynamicResources) api() (scheduler.APIHandle, error) {
	api, ok := d.handle.(scheduler.APIHandle)
	if !ok || api.Client() == nil {
		return nil, errors.New("the scheduler's Handle gives no access to the API")
	}
	return api, nil
}

func (d *dynamicResources) updateStatus(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	return d.update(ctx, pod, claim, "status")
}

// update writes a claim, which belongs to the client from then on, and returns the version that was written, shared.
func (d *dynamicResources) update(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, subresource string) (*resourcev1.ResourceClaim, error) {
	if all, ok := simulation(d.handle); ok {
		all.Put(framework.ResourceClaim, claim)
		return claim, nil
	}
	api, err := d.api()
	if err != nil {
		return nil, err
	}
	at := client.In(resourceClaims, objects.Key{Namespace: claim.Namespace, Name: claim.Name}).Sub(subresource)
	obj, err := api.Client().Update(withCause(ctx, pod), at, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

func (d *dynamicResources) patchStatus(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, patch client.Patch) error {
	api, err := d.api()
	if err != nil {
		return err
	}
	at := client.In(resourceClaims, objects.Key{Namespace: claim.Namespace, Name: claim.Name}).Sub("status")
	_, err = api.Client().Patch(withCause(ctx, pod), at, patch, metav1.PatchOptions{})
	return err
}
