package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"
)

func (d *dynamicResources) Filter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	s, err := podDevicesOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	extended, status := d.extendedOn(s, pod, info)
	if status != nil || len(s.claims) == 0 && extended == nil {
		return status
	}
	node := info.Node()
	unavailable := d.unavailable(s, node)
	found := nodeDevices{extended: extended}
	if s.allocating {
		if status := d.allocate(ctx, s, &found, node); status != nil {
			return status
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(unavailable) > 0 {
		if s.unavailable == nil {
			s.unavailable = sets.New[int]()
		}
		s.unavailable.Insert(unavailable...)
		return unresolvable("resourceclaim not available on the node")
	}
	if s.allocating {
		s.nodes[node.Name] = found
	}
	return nil
}

// unavailable returns the indexes of the allocated claims that a pod can't use on a node.
func (d *dynamicResources) unavailable(s *podDevices, node *corev1.Node) (out []int) {
	for i := range s.claims {
		c := &s.claims[i]
		if c.nodes != nil && !c.nodes.Match(node) || c.Status.Allocation != nil && d.stuck(c.ResourceClaim) {
			out = append(out, i)
		}
	}
	return out
}

// allocate fills in what the claims that have no allocation get on a node, and returns why if one gets nothing.
func (d *dynamicResources) allocate(ctx context.Context, s *podDevices, found *nodeDevices, node *corev1.Node) *framework.Status {
	claims, specs := s.wanted, s.specs
	if found.extended != nil {
		claims = append(slices.Clip(claims), found.extended.claim)
		var err error
		if specs, err = specsOf(claims); err != nil {
			return framework.AsStatus(err)
		}
	}
	got, status := d.allocateAll(ctx, s, claims, specs, node)
	if status == nil {
		found.results = s.withShared(got)
	}
	return status
}

// withShared returns results, and between them those of the claims that other pods of the group have allocated.
func (s *podDevices) withShared(results []resourcev1.AllocationResult) []resourcev1.AllocationResult {
	if !s.sharing {
		return results
	}
	var all []resourcev1.AllocationResult
	for _, c := range s.unallocated() {
		if c.shared != nil {
			all = append(all, *c.shared)
		} else {
			all, results = append(all, results[0]), results[1:]
		}
	}
	return append(all, results...)
}

// allocateAll allocates claims with these specs on a node. The result is shared.
func (d *dynamicResources) allocateAll(ctx context.Context, s *podDevices, claims []*resourcev1.ResourceClaim, specs string, node *corev1.Node) ([]resourcev1.AllocationResult, *framework.Status) {
	revision := d.manager().NodeDeviceRevision(node.Name)
	got, known := d.kept.get(node, revision, specs)
	if !known {
		var status *framework.Status
		if got, status = d.tryAllocate(ctx, s, claims, node, revision); status != nil {
			return nil, status
		}
		d.kept.put(node, revision, specs, got)
	}
	if len(got) != len(claims) {
		return nil, unresolvable("cannot allocate all claims")
	}
	return got, nil
}

// tryAllocate lets Kubernetes' allocator allocate claims on a node, with what is taken at the revision or later. It returns nothing if the node
// lacks devices.
func (d *dynamicResources) tryAllocate(ctx context.Context, s *podDevices, claims []*resourcev1.ResourceClaim, node *corev1.Node, revision uint64) ([]resourcev1.AllocationResult, *framework.Status) {
	limited := ctx
	if d.filterTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, d.filterTimeout)
		defer cancel()
	}
	allocator, err := d.allocatorFor(limited, s, node.Name, revision)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	got, err := allocator.Allocate(limited, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, framework.AsStatus(fmt.Errorf("node %s: timed out trying to allocate devices", node.Name))
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, unresolvable(err.Error())
	case ctx.Err() != nil:
		return nil, unresolvable(fmt.Sprintf("asked by caller to stop allocating devices: %v", context.Cause(ctx)))
	case err != nil:
		return nil, framework.AsStatus(err)
	}
	return got, nil
}

// allocatorFor returns an allocator with the slices that matter to a node.
func (d *dynamicResources) allocatorFor(ctx context.Context, s *podDevices, node string, revision uint64) (structured.Allocator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.takenAt < revision {
		if err := d.gather(s); err != nil {
			return nil, err
		}
	}
	m := d.manager()
	return structured.NewAllocator(ctx, deviceFeatures, s.taken, m.DeviceClasses(), m.NodeSlices(node), d.selectors())
}

// PostFilter deallocates a claim of the pod that no other pod uses, so that the pod can get other devices, if a node was rejected because of it.
func (d *dynamicResources) PostFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	s, err := podDevicesOf(state)
	if err != nil {
		return nil, unresolvable(err.Error())
	}
	if len(s.claims) == 0 && s.extended == nil {
		return nil, framework.NewStatus(framework.Unschedulable, "no new claims to deallocate")
	}
	for _, i := range sets.List(s.unavailable) {
		claim := s.claims[i].ResourceClaim
		if used := claim.Status.ReservedFor; len(used) > 1 || len(used) == 1 && used[0].UID != pod.UID {
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor, claim.Status.Allocation, claim.Status.Devices = nil, nil, nil
		if _, err := d.updateStatus(ctx, pod, claim); err != nil {
			return nil, framework.AsStatus(err)
		}
		return nil, framework.NewStatus(framework.Unschedulable, "deallocation of ResourceClaim completed")
	}
	if s.extended != nil && s.extended.stale != nil {
		if err := d.deleteClaim(ctx, pod, s.extended.stale); err != nil {
			return nil, framework.AsStatus(err)
		}
		return nil, framework.NewStatus(framework.Unschedulable, "deletion of ResourceClaim completed")
	}
	return nil, framework.NewStatus(framework.Unschedulable, "still not schedulable")
}

// Score prefers nodes where the requests get alternatives that stand early in their lists.
func (*dynamicResources) Score(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	s, err := podDevicesOf(state)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	found := s.nodes[info.Node().Name].results
	if len(found) == 0 {
		return 0, nil
	}
	var sum int64
	for i := range s.claims {
		claim := s.claims[i].ResourceClaim
		a := claim.Status.Allocation
		if a == nil {
			if len(found) == 0 {
				return 0, framework.AsStatus(fmt.Errorf("number of allocations %d is smaller than number of claims needing allocation", len(s.nodes[info.Node().Name].results)))
			}
			a, found = &found[0], found[1:]
		}
		sum += scoreOf(claim, a)
	}
	return sum, nil
}

// scoreOf sums the indexes of the allocated alternatives, counted from the end of the longest possible list.
func scoreOf(claim *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) (sum int64) {
	if !slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 0 }) {
		return 0
	}
	got := sets.New[string]()
	for i := range a.Devices.Results {
		got.Insert(a.Devices.Results[i].Request)
	}
	for _, r := range claim.Spec.Devices.Requests {
		for i, sub := range r.FirstAvailable {
			if got.Has(resourceclaim.CreateSubRequestRef(r.Name, sub.Name)) {
				sum += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - i)
			}
		}
	}
	return sum
}

func (d *dynamicResources) ScoreExtensions() framework.ScoreExtensions { return d }

func (*dynamicResources) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	normalise(scores, false)
	return nil
}
