package scheduler

import (
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
)

// DeviceManager is the scheduler's SharedDRAManager. Beside Kubernetes' interface it shows a plugin what matters to the allocation of devices
// on one node, so that the plugin can keep the results of a node until something that matters to them changes.
type DeviceManager interface {
	framework.SharedDRAManager
	// DeviceRevision returns the number of changes of slices, classes and allocations so far. A state that GatherAllocatedState returns
	// after the call includes the allocations among them.
	DeviceRevision() uint64
	// NodeDeviceRevision returns the DeviceRevision of the last change that matters to a node.
	NodeDeviceRevision(node string) uint64
	// NodeSlices returns the slices of the pools that matter to a node, shared.
	NodeSlices(node string) []*resourcev1.ResourceSlice
}

var _ DeviceManager = (*devices)(nil)

// DeviceRevision and the methods below implement DeviceManager.
func (d *devices) DeviceRevision() uint64 { return d.index.revision() }

func (d *devices) NodeDeviceRevision(node string) uint64 { return d.index.revisionOf(node) }

func (d *devices) NodeSlices(node string) []*resourcev1.ResourceSlice { return d.index.slicesOf(node) }

// deviceIndex holds the slices by pool and by node, and notes when something changed that matters to a node: a slice of a pool with devices of
// the node or with a shared slice, an allocation of devices of such a pool, or a class. It is safe for concurrent use.
type deviceIndex struct {
	mu     sync.Mutex
	clock  uint64            // counts the changes
	common uint64            // the clock of the last change that matters to all nodes
	last   map[string]uint64 // the clock of the last change that matters to a node, by its name
	pools  map[devicePool]map[string]*resourcev1.ResourceSlice
	local  map[string]map[devicePool]int // how many slices of a pool are a node's own, by its name
	shared map[devicePool]int            // how many slices of a pool are not a node's own
}

// devicePool identifies a pool of devices.
type devicePool struct{ driver, name string }

func newDeviceIndex() *deviceIndex {
	return &deviceIndex{
		last: map[string]uint64{}, pools: map[devicePool]map[string]*resourcev1.ResourceSlice{},
		local: map[string]map[devicePool]int{}, shared: map[devicePool]int{},
	}
}

func (x *deviceIndex) revision() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.clock
}

func (x *deviceIndex) revisionOf(node string) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(x.common, x.last[node])
}

func (x *deviceIndex) slicesOf(node string) (out []*resourcev1.ResourceSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	add := func(pool devicePool) {
		for _, s := range x.pools[pool] {
			out = append(out, s)
		}
	}
	for pool := range x.shared {
		add(pool)
	}
	for pool := range x.local[node] {
		if x.shared[pool] == 0 {
			add(pool)
		}
	}
	return out
}

// sliceChanged follows a slice of the cache.
func (x *deviceIndex) sliceChanged(ch client.Change[*resourcev1.ResourceSlice]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock++
	if !ch.Added() {
		x.touch(poolOf(ch.Old), true)
		x.remove(ch.Old)
	}
	if !ch.Deleted() {
		x.add(ch.New)
		x.touch(poolOf(ch.New), true)
	}
}

// classesChanged notes a change of a class, which matters to all nodes.
func (x *deviceIndex) classesChanged() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock++
	x.common = x.clock
}

// allocationChanged notes that devices are taken or free again. The state has that change already.
func (x *deviceIndex) allocationChanged(a *resourcev1.AllocationResult) {
	if a == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock++
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		x.touch(devicePool{r.Driver, r.Pool}, false)
	}
}

// touch notes a change of a pool: of its slices, or only of its allocations. Slices of counters, which all nodes see, have no devices that could
// be allocated.
func (x *deviceIndex) touch(pool devicePool, slices bool) {
	for _, s := range x.pools[pool] {
		switch node := nodeOf(s); {
		case node != "":
			x.last[node] = x.clock
		case slices || len(s.Spec.SharedCounters) == 0:
			x.common = x.clock
		}
	}
}

func (x *deviceIndex) add(s *resourcev1.ResourceSlice) {
	pool := poolOf(s)
	if x.pools[pool] == nil {
		x.pools[pool] = map[string]*resourcev1.ResourceSlice{}
	}
	x.pools[pool][s.Name] = s
	node := nodeOf(s)
	if node == "" {
		x.shared[pool]++
		return
	}
	if x.local[node] == nil {
		x.local[node] = map[devicePool]int{}
	}
	x.local[node][pool]++
}

func (x *deviceIndex) remove(s *resourcev1.ResourceSlice) {
	pool := poolOf(s)
	if delete(x.pools[pool], s.Name); len(x.pools[pool]) == 0 {
		delete(x.pools, pool)
	}
	node := nodeOf(s)
	if node == "" {
		countDown(x.shared, pool)
		return
	}
	if countDown(x.local[node], pool); len(x.local[node]) == 0 {
		delete(x.local, node)
		delete(x.last, node)
		x.common = x.clock // the node's revision must not become an earlier one
	}
}

func countDown(counts map[devicePool]int, pool devicePool) {
	if counts[pool]--; counts[pool] == 0 {
		delete(counts, pool)
	}
}

func poolOf(s *resourcev1.ResourceSlice) devicePool {
	return devicePool{s.Spec.Driver, s.Spec.Pool.Name}
}

// nodeOf returns the node that alone sees a slice, "" if others see it, too.
func nodeOf(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil || len(s.Spec.SharedCounters) > 0 {
		return ""
	}
	return *s.Spec.NodeName
}
