package scheduler

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/minikctl/minikctl/pkg/client"
)

// share is an allocated part of a device; without a name, the device is allocated as a whole.
type share struct {
	device, share, amount string
	admin                 bool
}

func claimWith(uid string, shares ...share) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.UID = types.UID(uid)
	if len(shares) == 0 {
		return c
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, s := range shares {
		r := resourcev1.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: s.device}
		if s.admin {
			r.AdminAccess = new(true)
		}
		if s.share != "" {
			r.ShareID = new(types.UID(s.share))
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(s.amount)}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
	}
	return c
}

// taken describes a state: the devices, the shares, and the amounts of memory.
func taken(s structured.AllocatedState) (out []string) {
	for id := range s.AllocatedDevices {
		out = append(out, id.String())
	}
	for id := range s.AllocatedSharedDeviceIDs {
		out = append(out, id.String())
	}
	for id, c := range s.AggregatedCapacity {
		out = append(out, id.String()+" "+c["memory"].String())
	}
	slices.Sort(out)
	return out
}

// TestTakenDevices follows claims as a cache reports them, with the cases of Kubernetes' test of the same state.
func TestTakenDevices(t *testing.T) {
	for _, x := range []struct {
		name    string
		changes []client.Change[*resourcev1.ResourceClaim]
		want    []string
	}{
		{"no-claims", nil, nil},
		{"claim without an allocation", []client.Change[*resourcev1.ResourceClaim]{{New: claimWith("a")}}, nil},
		{"single-allocated-claim", []client.Change[*resourcev1.ResourceClaim]{{New: claimWith("a", share{device: "x"})}}, []string{"d/p/x"}},
		{"admin access", []client.Change[*resourcev1.ResourceClaim]{{New: claimWith("a", share{device: "x", admin: true})}}, nil},
		{"single-allocated-claim-with-capacity", []client.Change[*resourcev1.ResourceClaim]{{New: claimWith("a", share{"x", "s", "1Gi", false})}}, []string{"d/p/x 1Gi", "d/p/x/s"}},
		{"mixed-allocated-claim", []client.Change[*resourcev1.ResourceClaim]{
			{New: claimWith("a", share{device: "y"}, share{"x", "s", "1Gi", false})}, {New: claimWith("b", share{"x", "t", "2Gi", false})},
		}, []string{"d/p/x 3Gi", "d/p/x/s", "d/p/x/t", "d/p/y"}},
		{"deallocated", []client.Change[*resourcev1.ResourceClaim]{
			{New: claimWith("a", share{device: "y"}, share{"x", "s", "1Gi", false})}, {Old: claimWith("a", share{device: "y"}, share{"x", "s", "1Gi", false}), New: claimWith("a")},
		}, nil},
		{"deleted", []client.Change[*resourcev1.ResourceClaim]{{New: claimWith("a", share{device: "x"})}, {Old: claimWith("a", share{device: "x"})}}, nil},
		{"replaced", []client.Change[*resourcev1.ResourceClaim]{
			{New: claimWith("a", share{device: "x"})}, {Old: claimWith("a", share{device: "x"}), New: claimWith("b", share{device: "y"})},
		}, []string{"d/p/y"}},
		{"changed otherwise", []client.Change[*resourcev1.ResourceClaim]{
			{New: claimWith("a", share{"x", "s", "1Gi", false})}, {Old: claimWith("a", share{"x", "s", "1Gi", false}), New: claimWith("a", share{"x", "s", "1Gi", false})},
		}, []string{"d/p/x 1Gi", "d/p/x/s"}},
	} {
		d := newDevices()
		for _, ch := range x.changes {
			d.claims.changed(ch)
		}
		if got := taken(d.claims.allocated); !slices.Equal(got, x.want) {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
}

// TestPendingAllocations: an allocation that is not written yet ends with the last pod that shares it, or by force.
func TestPendingAllocations(t *testing.T) {
	tracker := &newDevices().claims
	claim := claimWith("a", share{device: "x"})
	signal := func() {
		if err := tracker.SignalClaimPendingAllocation("a", claim); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v", what, got)
		}
	}
	expect("removal of none", tracker.MaybeRemoveClaimPendingAllocation("a", false), false)
	signal()
	signal()
	expect("pending", tracker.GetPendingAllocation("a") == claim.Status.Allocation, true)
	expect("pending for another claim", tracker.GetPendingAllocation("b") == nil, true)
	expect("removal by the first of two", tracker.MaybeRemoveClaimPendingAllocation("a", false), false)
	expect("removal by the second", tracker.MaybeRemoveClaimPendingAllocation("a", false), true)
	expect("nothing pending", tracker.GetPendingAllocation("a") == nil, true)
	signal()
	signal()
	expect("removal by force", tracker.MaybeRemoveClaimPendingAllocation("a", true), true)
	expect("nothing pending", tracker.GetPendingAllocation("a") == nil, true)
}

// TestUnknownDevices: before the scheduler has listed the claims, it allocates nothing: devices may be taken.
func TestUnknownDevices(t *testing.T) {
	d := newDevices()
	if _, err := d.ResourceClaims().GatherAllocatedState(); err == nil {
		t.Error("a state without claims")
	}
	if _, err := d.ResourceSlices().ListWithDeviceTaintRules(); err == nil {
		t.Error("slices before they are listed")
	}
	if _, err := d.ResourceClaims().Get("ns", "x"); err == nil || err.Error() != `could not find ResourceClaim "ns/x"` {
		t.Errorf("got %v", err)
	}
}
