package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/minikctl/minikctl/pkg/client"
)

// deviceWorld changes slices, a class and allocations at random.
type deviceWorld struct {
	*rand.Rand
	devices *devices
	slices  map[string]*resourcev1.ResourceSlice
	claims  []*resourcev1.ResourceClaim // with allocations, in the cache or pending
	class   *resourcev1.DeviceClass
	cel     *cel.Cache
}

// Get and List implement the lister of classes.
func (w *deviceWorld) Get(string) (*resourcev1.DeviceClass, error) { return w.class, nil }
func (w *deviceWorld) List() ([]*resourcev1.DeviceClass, error) {
	return []*resourcev1.DeviceClass{w.class}, nil
}

// slice returns a slice of a node, of all nodes, or of counters. Its pool has two slices.
func (w *deviceWorld) slice(pool, index int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool-%d-%d", pool, index)}}
	s.Spec.Driver, s.Spec.Pool = "d", resourcev1.ResourcePool{Name: fmt.Sprint("pool-", pool), Generation: int64(max(1, w.IntN(6)-3)), ResourceSliceCount: 2}
	if index == 0 && pool < 2 {
		s.Spec.AllNodes = new(true)
		s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "set", Counters: map[string]resourcev1.Counter{"unit": {Value: resource.MustParse("2")}}}}
		return s
	}
	if w.IntN(8) == 0 {
		s.Spec.AllNodes = new(true)
	} else {
		s.Spec.NodeName = new(fmt.Sprint("node-", w.IntN(3)))
	}
	for i := range 3 {
		d := resourcev1.Device{Name: fmt.Sprintf("device-%d-%d", index, i)}
		switch n := w.IntN(3); {
		case n == 0:
			d.AllowMultipleAllocations = new(true)
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("2Gi")}}
		case n == 1 && pool < 2:
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourcev1.Counter{"unit": {Value: resource.MustParse("1")}}}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func (w *deviceWorld) changeSlice() {
	pool, index := w.IntN(4), w.IntN(2)
	ch := client.Change[*resourcev1.ResourceSlice]{New: w.slice(pool, index)}
	name := ch.New.Name
	ch.Old = w.slices[name]
	if w.slices[name] = ch.New; ch.Old != nil && w.IntN(3) == 0 {
		ch.New = nil
		delete(w.slices, name)
	}
	w.devices.index.sliceChanged(ch)
}

func (w *deviceWorld) changeClass() {
	w.class = &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	w.class.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
		Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: fmt.Sprint("d", w.IntN(100))}}}}
	w.devices.index.classesChanged()
}

// changeAllocation makes an allocation pending, which stands in the cache later, and ends in the end.
func (w *deviceWorld) changeAllocation(t *testing.T) {
	tracker := &w.devices.claims
	if n := len(w.claims); n > 6 || n > 0 && w.IntN(3) == 0 {
		i := w.IntN(n)
		claim := w.claims[i]
		if tracker.GetPendingAllocation(claim.UID) != nil {
			tracker.changed(client.Change[*resourcev1.ResourceClaim]{New: claim})
			tracker.MaybeRemoveClaimPendingAllocation(claim.UID, false)
			return
		}
		tracker.changed(client.Change[*resourcev1.ResourceClaim]{Old: claim})
		w.claims = append(w.claims[:i], w.claims[i+1:]...)
		return
	}
	claim := wantedClaims()[w.IntN(len(wantedClaims()))]
	claim.UID = types.UID(fmt.Sprint(w.Uint64()))
	got, err := w.allocate(w.all(), fmt.Sprint("node-", w.IntN(3)), claim)
	if err != nil || len(got) == 0 {
		return
	}
	claim.Status.Allocation = &got[0]
	w.claims = append(w.claims, claim)
	if err := tracker.SignalClaimPendingAllocation(claim.UID, claim); err != nil {
		t.Fatal(err)
	}
}

// wantedClaims are for one device, for two, for all, and for half of a device's capacity.
func wantedClaims() (out []*resourcev1.ResourceClaim) {
	for _, r := range []resourcev1.ExactDeviceRequest{
		{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
		{AllocationMode: resourcev1.DeviceAllocationModeAll},
		{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1, Capacity: &resourcev1.CapacityRequirements{
			Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}}},
	} {
		r.DeviceClassName = "class"
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &r}}
		out = append(out, claim)
	}
	return out
}

func (w *deviceWorld) all() (out []*resourcev1.ResourceSlice) {
	for _, s := range w.slices {
		out = append(out, s)
	}
	return out
}

func (w *deviceWorld) allocate(slices []*resourcev1.ResourceSlice, node string, claim *resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	features := structured.Features{PartitionableDevices: true, ConsumableCapacity: true}
	a, err := structured.NewAllocator(context.Background(), features, *w.devices.claims.gather(), w, slices, w.cel)
	if err != nil {
		return nil, err
	}
	return a.Allocate(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, []*resourcev1.ResourceClaim{claim})
}

// describe allocates a claim, and describes the result but for the random ID of a share.
func (w *deviceWorld) describe(slices []*resourcev1.ResourceSlice, node string, claim *resourcev1.ResourceClaim) string {
	got, err := w.allocate(slices, node, claim)
	for i := range got {
		for k := range got[i].Devices.Results {
			got[i].Devices.Results[k].ShareID = nil
		}
	}
	return fmt.Sprint(got, err)
}

// TestDeviceIndex compares allocations with the slices of a node and those with all slices, while everything changes at random. As long as the
// revision of a node is the same, so are the allocations on it.
func TestDeviceIndex(t *testing.T) {
	kept, allocated := 0, 0
	for seed := range uint64(10) {
		w := &deviceWorld{Rand: rand.New(rand.NewPCG(seed, 0)), devices: newDevices(), slices: map[string]*resourcev1.ResourceSlice{}, cel: cel.NewCache(1, cel.Features{})}
		w.changeClass()
		for range 30 {
			w.changeSlice()
		}
		revisions, results := map[string]uint64{}, map[string]string{}
		for step := range 150 {
			switch n := w.IntN(20); {
			case n == 0:
				w.changeClass()
			case n < 10:
				w.changeSlice()
			default:
				w.changeAllocation(t)
			}
			for i := range 3 {
				node := fmt.Sprint("node-", i)
				revision := w.devices.NodeDeviceRevision(node)
				for k, claim := range wantedClaims() {
					want := w.describe(w.all(), node, claim)
					if got := w.describe(w.devices.NodeSlices(node), node, claim); got != want {
						t.Fatalf("seed %d, step %d, claim %d on %s: got %s with the slices of the node, want %s", seed, step, k, node, got, want)
					}
					key := fmt.Sprint(node, k)
					if was := results[key]; revisions[key] == revision && was != want {
						t.Fatalf("seed %d, step %d, claim %d on %s: at the same revision got %s, before %s", seed, step, k, node, want, was)
					} else if revisions[key] == revision {
						kept++
					}
					if revisions[key], results[key] = revision, want; strings.HasPrefix(want, "[{") {
						allocated++
					}
				}
			}
		}
	}
	if kept < 3000 || allocated < 3000 {
		t.Errorf("%d results were kept, and %d were allocations", kept, allocated)
	}
}
