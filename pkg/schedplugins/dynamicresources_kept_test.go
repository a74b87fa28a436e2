package schedplugins

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestKeptAllocations: a result is that of the same node object, revision and specs. Few results are kept for a node, and few nodes.
func TestKeptAllocations(t *testing.T) {
	k, results := &keptAllocations{}, make([]resourcev1.AllocationResult, 1)
	node, changed := &corev1.Node{}, &corev1.Node{}
	k.put(node, 1, "a", results)
	k.put(node, 1, "none", nil)
	expect := func(what string, on *corev1.Node, revision uint64, specs string, wantLen int, want bool) {
		t.Helper()
		if got, ok := k.get(on, revision, specs); ok != want || len(got) != wantLen {
			t.Errorf("%s: got %v %v", what, got, ok)
		}
	}
	expect("kept", node, 1, "a", 1, true)
	expect("kept that there are no devices", node, 1, "none", 0, true)
	expect("other specs", node, 1, "b", 0, false)
	expect("a later revision", node, 2, "a", 0, false)
	expect("a changed node", changed, 1, "a", 0, false)
	k.put(changed, 2, "b", results)
	expect("of an earlier revision", changed, 2, "a", 0, false)
	for i := range maxKept {
		k.put(changed, 2, fmt.Sprint(i), results)
	}
	expect("the first of too many", changed, 2, "b", 0, false)
	expect("the last", changed, 2, fmt.Sprint(maxKept-1), 1, true)
	for i := range 5 {
		k.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}, 1, "a", results)
	}
	k.limit(3)
	expect("as many nodes as the limit", changed, 2, fmt.Sprint(maxKept-1), 1, true)
	k.limit(2)
	expect("too many nodes", changed, 2, fmt.Sprint(maxKept-1), 0, false)
}

// changingDevices is a manager of the devices of one node. All changes so far matter to the node.
type changingDevices struct {
	scheduler.DeviceManager
	framework.DeviceClassLister
	revision uint64
	taken    string
}

func (c *changingDevices) ResourceClaims() framework.ResourceClaimTracker {
	return takenDevice{taken: c.taken}
}
func (c *changingDevices) DeviceClasses() framework.DeviceClassLister  { return c }
func (c *changingDevices) DeviceRevision() uint64                      { return c.revision }
func (c *changingDevices) NodeDeviceRevision(string) uint64            { return c.revision }
func (c *changingDevices) Get(string) (*resourcev1.DeviceClass, error) { return someClass(gpus), nil }

func (c *changingDevices) NodeSlices(node string) []*resourcev1.ResourceSlice {
	return []*resourcev1.ResourceSlice{someDevices(node, "a0", "a1")}
}

// takenDevice is a tracker with one taken device.
type takenDevice struct {
	framework.ResourceClaimTracker
	taken string
}

func (t takenDevice) GatherAllocatedState() (*structured.AllocatedState, error) {
	return &structured.AllocatedState{AllocatedDevices: sets.New(structured.MakeDeviceID(gpus, "n1", t.taken))}, nil
}

// TestTakenDuringCycle: a device that is taken after PreFilter is not allocated, so that no stale result is kept.
func TestTakenDuringCycle(t *testing.T) {
	devices := &changingDevices{revision: 1, taken: "a1"}
	d := &dynamicResources{devices: devices, kept: &keptAllocations{}, selectors: sync.OnceValue(newSelectors)}
	s := &podDevices{}
	if err := d.gather(s); err != nil {
		t.Fatal(err)
	}
	node, claim := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, someClaim("claim")
	claim.Spec.Devices.Requests[0].Exactly.AllocationMode, claim.Spec.Devices.Requests[0].Exactly.Count = resourcev1.DeviceAllocationModeExactCount, 1
	for _, taken := range []string{"a1", "a0"} {
		devices.taken = taken
		results, status := d.allocateAll(context.Background(), s, []*resourcev1.ResourceClaim{claim}, "specs", node)
		if status != nil || results[0].Devices.Results[0].Device == taken {
			t.Errorf("with %s taken: %v %v", taken, results, status)
		}
		devices.revision++
	}
}
