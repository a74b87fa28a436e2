package schedplugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

func (d *dynamicResources) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	state.Write(dynamicResourcesState, noClaims)
	claims, err := d.claimsOf(pod)
	if err != nil {
		return nil, unresolvable(err.Error())
	}
	extended, err := d.extendedOf(pod)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(claims) == 0 && extended == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &podDevices{claims: claims, extended: extended}
	for i := range s.claims {
		if status := d.checkClaim(state, pod, &s.claims[i]); status != nil {
			return nil, status
		}
	}
	if err := d.prepare(s, len(nodes)); err != nil {
		return nil, framework.AsStatus(err)
	}
	d.kept.limit(len(nodes))
	state.Write(dynamicResourcesState, s)
	return nil, nil
}

func (*dynamicResources) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// checkClaim returns why a pod can't be scheduled with a claim on any node, nil if it may be on some.
func (d *dynamicResources) checkClaim(state framework.CycleState, pod *corev1.Pod, c *podClaim) *framework.Status {
	if c.Status.Allocation != nil {
		if !resourceclaim.CanBeReserved(c.ResourceClaim) && !resourceclaim.IsReservedForPod(pod, c.ResourceClaim, false) {
			return unresolvable("resourceclaim in use")
		}
		return c.limitTo(c.Status.Allocation)
	}
	pending := d.devices.ResourceClaims().GetPendingAllocation(c.UID)
	if pending == nil {
		return d.checkRequests(c.ResourceClaim)
	}
	group, err := groupClaimsOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	if !group.Has(c.UID) {
		return unresolvable(fmt.Sprintf("resource claim %s/%s is in the process of being allocated", c.Namespace, c.Name))
	}
	c.shared = pending
	return c.limitTo(pending)
}

// limitTo limits the claim to the nodes of an allocation.
func (c *podClaim) limitTo(a *resourcev1.AllocationResult) *framework.Status {
	if a.NodeSelector == nil {
		return nil
	}
	var err error
	if c.nodes, err = nodeaffinity.NewNodeSelector(a.NodeSelector); err != nil {
		return framework.AsStatus(err)
	}
	return nil
}

// checkRequests returns an error if a class of the claim's requests does not exist.
func (d *dynamicResources) checkRequests(claim *resourcev1.ResourceClaim) *framework.Status {
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		switch {
		case r.Exactly != nil:
			if status := d.checkClass(r.Exactly.DeviceClassName, r.Name); status != nil {
				return status
			}
		case len(r.FirstAvailable) > 0:
			for _, sub := range r.FirstAvailable {
				if status := d.checkClass(sub.DeviceClassName, r.Name+"/"+sub.Name); status != nil {
					return status
				}
			}
		default:
			return unresolvable(fmt.Sprintf("resource claim %s/%s, request %s: unknown request type", claim.Namespace, claim.Name, r.Name))
		}
	}
	return nil
}

func (d *dynamicResources) checkClass(class, request string) *framework.Status {
	if class == "" {
		return framework.AsStatus(fmt.Errorf("request %s: unsupported request type", request))
	}
	if _, err := d.devices.DeviceClasses().Get(class); apierrors.IsNotFound(err) {
		return unresolvable(fmt.Sprintf("request %s: device class %s does not exist", request, class))
	}
	return nil
}

// prepare gathers what Filter needs on so many nodes if a claim has no allocation yet.
func (d *dynamicResources) prepare(s *podDevices, nodes int) error {
	unallocated := s.unallocated()
	if len(unallocated) == 0 && s.extended == nil {
		return nil
	}
	s.allocating, s.nodes = true, make(map[string]nodeDevices, nodes/2)
	for _, c := range unallocated {
		if c.shared != nil {
			s.sharing = true
		} else {
			s.wanted = append(s.wanted, c.ResourceClaim)
		}
	}
	var err error
	if s.specs, err = specsOf(s.wanted); err != nil {
		return err
	}
	return d.gather(s)
}

// gather notes which devices are taken.
func (d *dynamicResources) gather(s *podDevices) error {
	at := d.manager().DeviceRevision()
	taken, err := d.devices.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return fmt.Errorf("gather allocation state: %w", err)
	}
	s.taken, s.takenAt = *taken, at
	return nil
}

// manager returns the scheduler's manager.
func (d *dynamicResources) manager() scheduler.DeviceManager {
	return d.devices.(scheduler.DeviceManager)
}

// groupClaims are the claims that pods of a PodGroup have pending allocations for, during the group's cycle.
type groupClaims struct{ sets.Set[types.UID] }

// Clone implements framework.StateData.
func (g groupClaims) Clone() framework.StateData { return g }

// groupClaimsOf returns the claims of the pod's group; an empty set if there is none.
func groupClaimsOf(state framework.CycleState) (groupClaims, error) {
	group := state.GetPodGroupSchedulingCycle()
	if group == nil {
		return groupClaims{}, nil
	}
	data, err := group.Read(dynamicResourcesState)
	if errors.Is(err, framework.ErrNotFound) {
		claims := groupClaims{sets.New[types.UID]()}
		group.Write(dynamicResourcesState, claims)
		return claims, nil
	}
	if err != nil {
		return groupClaims{}, err
	}
	return data.(groupClaims), nil
}
