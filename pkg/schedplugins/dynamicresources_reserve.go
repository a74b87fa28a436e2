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
	if !s.allocating {
		return nil
	}
	found, ok := s.nodes[node]
	if !ok {
		if len(s.unallocated()) == 0 {
			return nil // the node has the pod's extended resources without devices
		}
		return framework.AsStatus(errors.New("claim allocation not found for node"))
	}
	if found.extended != nil {
		s.claims = append(s.claims, podClaim{ResourceClaim: found.extended.claim, extended: found.extended})
	}
	group, err := groupClaimsOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	for i, c := range s.unallocated() {
		c.allocation = &found.results[i]
		if err := d.devices.ResourceClaims().SignalClaimPendingAllocation(c.UID, allocatedCopy(c)); err != nil {
			return framework.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s", c.Name))
		}
		c.pending = c.UID
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
		if c.extended != nil {
			d.unreserveExtended(ctx, pod, c)
			s.claims = s.claims[:i] // Reserve appended it
			return
		}
		if c.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, c.ResourceClaim, false) {
			if err := d.unreserve(ctx, pod, c); err != nil {
				slog.ErrorContext(ctx, "reservation of a resource claim not removed", "pod", pod.Namespace+"/"+pod.Name, "claim", c.Name, "err", err)
			}
		}
	}
}

// release ends the pod's part in the pending allocation of a claim; with force, that of all pods of the group.
func (d *dynamicResources) release(c *podClaim, force bool, group groupClaims) {
	if c.pending == "" {
		return
	}
	tracker := d.devices.ResourceClaims()
	if tracker.MaybeRemoveClaimPendingAllocation(c.pending, force) {
		tracker.AssumedClaimRestore(c.Namespace, c.Name)
		if group.Set != nil {
			group.Delete(c.pending)
		}
	}
	c.pending = ""
}

// unreserve removes the pod from the reservations of a claim. A patch needs no newest version of the claim.
func (d *dynamicResources) unreserve(ctx context.Context, pod *corev1.Pod, c *podClaim) error {
	if simulated(d.handle) { // only BindSimulated reserves
		return nil
	}
	data := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": { "reservedFor": [ {"$patch": "delete", "uid": %q} ] }}`, c.UID, pod.UID)
	return d.patchStatus(ctx, pod, c.ResourceClaim, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(data)})
}
