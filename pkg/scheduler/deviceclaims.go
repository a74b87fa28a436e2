package scheduler

import (
	"maps"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// claimTracker knows which devices are taken: those of the claims in the cache, and those that pods have reserved whose binding cycles have
// not written them yet. Its methods are those of framework.ResourceClaimTracker.
type claimTracker struct {
	devices   *devices
	mu        sync.Mutex
	allocated structured.AllocatedState // of the claims in the cache
	pending   map[types.UID]*pendingAllocation
}

// pendingAllocation is a claim with an allocation that is not written yet.
type pendingAllocation struct {
	claim   *resourcev1.ResourceClaim
	sharers int // pods of a group that are assumed with it
}

var _ framework.ResourceClaimTracker = (*claimTracker)(nil)

func newAllocatedState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// changed follows a claim of the cache.
func (t *claimTracker) changed(ch client.Change[*resourcev1.ResourceClaim]) {
	was, is := allocationOf(ch.Old), allocationOf(ch.New)
	if was == nil && is == nil || was != nil && is != nil && ch.Old.UID == ch.New.UID {
		return // an allocation never changes
	}
	t.mu.Lock()
	count(&t.allocated, was, false)
	count(&t.allocated, is, true)
	t.mu.Unlock()
	t.devices.index.allocationChanged(was)
	t.devices.index.allocationChanged(is)
}

func allocationOf(claim *resourcev1.ResourceClaim) *resourcev1.AllocationResult {
	if claim == nil {
		return nil
	}
	return claim.Status.Allocation
}

// count notes the devices of an allocation as taken, or as free again. Those with admin access are free for others.
func count(s *structured.AllocatedState, a *resourcev1.AllocationResult, taken bool) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		switch {
		case r.AdminAccess != nil && *r.AdminAccess:
		case r.ShareID != nil:
			countShare(s, r, id, taken)
		case taken:
			s.AllocatedDevices.Insert(id)
		default:
			s.AllocatedDevices.Delete(id)
		}
	}
}

// countShare is count for a share of a device's capacity.
func countShare(s *structured.AllocatedState, r *resourcev1.DeviceRequestAllocationResult, id structured.DeviceID, taken bool) {
	share, capacity := structured.MakeSharedDeviceID(id, r.ShareID), structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
	if taken {
		s.AllocatedSharedDeviceIDs.Insert(share)
		s.AggregatedCapacity.Insert(capacity)
		return
	}
	s.AllocatedSharedDeviceIDs.Delete(share)
	s.AggregatedCapacity.Remove(capacity)
}

// Get returns a claim, shared.
func (t *claimTracker) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if from := t.devices.from.Load(); from != nil {
		if claim, ok := from.claims.Get(objects.Key{Namespace: namespace, Name: name}); ok {
			return claim, nil
		}
	}
	return nil, unknownClaim(namespace, name)
}

// List returns all claims, shared.
func (t *claimTracker) List() ([]*resourcev1.ResourceClaim, error) {
	from, err := t.devices.synced()
	if err != nil {
		return nil, err
	}
	return from.claims.List("", nil), nil
}

// ListAllAllocatedDevices returns the devices that are taken as a whole.
func (t *claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	s, err := t.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	return s.AllocatedDevices, nil
}

// GatherAllocatedState returns what is taken, in the cache and by pending allocations. The caller may change it.
func (t *claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	if _, err := t.devices.synced(); err != nil {
		return nil, err
	}
	return t.gather(), nil
}

func (t *claimTracker) gather() *structured.AllocatedState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &structured.AllocatedState{
		AllocatedDevices: maps.Clone(t.allocated.AllocatedDevices), AllocatedSharedDeviceIDs: maps.Clone(t.allocated.AllocatedSharedDeviceIDs),
		AggregatedCapacity: t.allocated.AggregatedCapacity.Clone(),
	}
	for _, p := range t.pending {
		count(s, p.claim.Status.Allocation, true)
	}
	return s
}

// SignalClaimPendingAllocation notes the allocation of a claim until it is written. For another pod of the group it counts a sharer.
func (t *claimTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	t.mu.Lock()
	p, ok := t.pending[uid]
	if ok {
		p.sharers++
	} else {
		t.pending[uid] = &pendingAllocation{claim, 1}
	}
	t.mu.Unlock()
	if !ok {
		t.devices.index.allocationChanged(claim.Status.Allocation)
	}
	return nil
}

// GetPendingAllocation returns the allocation of a claim that is not written yet, nil if there is none.
func (t *claimTracker) GetPendingAllocation(uid types.UID) *resourcev1.AllocationResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[uid]; ok {
		return p.claim.Status.Allocation
	}
	return nil
}

// MaybeRemoveClaimPendingAllocation ends a pod's use of a pending allocation, and the allocation with its last pod or if force is true. It
// reports whether the allocation has ended.
func (t *claimTracker) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	claim := t.removePending(uid, force)
	if claim == nil {
		return false
	}
	t.devices.index.allocationChanged(claim.Status.Allocation)
	return true
}

// removePending returns the claim if its pending allocation has ended.
func (t *claimTracker) removePending(uid types.UID, force bool) *resourcev1.ResourceClaim {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pending[uid]
	if !ok {
		return nil
	}
	if p.sharers--; p.sharers > 0 && !force {
		return nil
	}
	delete(t.pending, uid)
	return p.claim
}

// AssumeClaimAfterAPICall puts a claim that the API returned into the cache, before the watch delivers it.
func (t *claimTracker) AssumeClaimAfterAPICall(claim *resourcev1.ResourceClaim) error {
	from, err := t.devices.synced()
	if err != nil {
		return err
	}
	from.claims.Put(claim)
	return nil
}

// AssumedClaimRestore does nothing: the cache only has claims that the API returned.
func (t *claimTracker) AssumedClaimRestore(_, _ string) {}
