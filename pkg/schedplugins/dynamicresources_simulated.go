package schedplugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

var _ scheduler.BindsSimulated = (*dynamicResources)(nil)

// BindSimulated allocates and reserves the pod's claims in a simulation, and makes that of its extended resources. Devices are ready at once: what their
// binding conditions wait for is not simulated.
func (d *dynamicResources) BindSimulated(_ context.Context, state framework.CycleState, pod *corev1.Pod, node string) {
	all, ok := simulation(d.handle)
	s, err := podDevicesOf(state)
	if !ok || err != nil {
		return
	}
	found := s.nodes[node]
	results := found.results
	for i := range s.claims {
		c := &s.claims[i]
		if c.extended != nil {
			continue
		}
		claim := c.ResourceClaim
		if now, err := d.devices.ResourceClaims().Get(c.Namespace, c.Name); err == nil {
			claim = now // another pod of the group may have allocated it
		}
		var allocation *resourcev1.AllocationResult
		if c.Status.Allocation == nil {
			allocation, results = &results[0], results[1:]
		}
		all.Put(framework.ResourceClaim, boundClaim(claim, allocation, pod))
	}
	if found.extended != nil {
		claim := found.extended.claim.DeepCopy()
		claim.Name = claim.GenerateName + string(pod.UID)
		claim.UID = types.UID(claim.Name)
		all.Put(framework.ResourceClaim, boundClaim(claim, &results[0], pod))
	}
}

// boundClaim returns a claim with an allocation, unless it has one already, and a reservation for a pod.
func boundClaim(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult, pod *corev1.Pod) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	if claim.Status.Allocation == nil {
		claim.Status.Allocation = allocation.DeepCopy()
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		}
	}
	if !resourceclaim.IsReservedForPod(pod, claim, false) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	return claim
}
