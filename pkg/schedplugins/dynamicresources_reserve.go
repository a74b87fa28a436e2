package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
)

// Reserve keeps what Filter found on the node for the pod. Nothing is written yet.
func (d *dynamicResources) Reserve(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) *framework.Status {
	s, err := podDevicesOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	unallocated := s.unallocated()
	if len(unallocated) == 0 {
		return nil
	}
	group, err := groupClaimsOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	found, ok := s.nodes[node]
	if !ok || len(found) == 0 {
		return framework.AsStatus(errors.New("claim allocation not found for node"))
	}
	if len(found) != len(unallocated) {
		return framework.AsStatus(fmt.Errorf("internal error, have %d allocations, %d claims to allocate, want %d claims", len(found), len(unallocated), len(unallocated)))
	}
	for i, c := range unallocated {
		c.allocation = &found[i]
		if err := d.devices.ResourceClaims().SignalClaimPendingAllocation(c.UID, allocatedCopy(c)); err != nil {
			return framework.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s", c.Name))
		}
		c.pending = true
		if group.Set != nil {
			group.Insert(c.UID)
		}
	}
	return nil
}

// allocatedCopy returns a claim as PreBind will write it.
func allocatedCopy(c *podClaim) *resourcev1.ResourceClaim {
	claim := c.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	}
	claim.Status.Allocation = c.allocation
	return claim
}

// Unreserve gives up what Reserve kept and what PreBind wrote.
func (d *dynamicResources) Unreserve(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ string) {
	s, err := podDevicesOf(state)
	if err != nil {
		return
	}
	group, err := groupClaimsOf(state)
	if err != nil {
		return
	}
	for i := range s.claims {
		c := &s.claims[i]
		d.release(c, false, group)
		if c.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, c.ResourceClaim, false) {
			if err := d.unreserve(ctx, pod, c); err != nil {
				slog.ErrorContext(ctx, "reservation of a resource claim not removed", "pod", pod.Namespace+"/"+pod.Name, "claim", c.Name, "err", err)
			}
		}
	}
}

// release ends the pod's part in the pending allocation of a claim; with force, that of all pods of the group.
func (d *dynamicResources) release(c *podClaim, force bool, group groupClaims) {
	if !c.pending {
		return
	}
	c.pending = false
	tracker := d.devices.ResourceClaims()
	if tracker.MaybeRemoveClaimPendingAllocation(c.UID, force) {
		tracker.AssumedClaimRestore(c.Namespace, c.Name)
		if group.Set != nil {
			group.Delete(c.UID)
		}
	}
}

// unreserve removes the pod from the reservations of a claim. A patch needs no newest version of the claim.
func (d *dynamicResources) unreserve(ctx context.Context, pod *corev1.Pod, c *podClaim) error {
	data := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": { "reservedFor": [ {"$patch": "delete", "uid": %q} ] }}`, c.UID, pod.UID)
	return d.patchStatus(ctx, pod, c.ResourceClaim, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(data)})
}
