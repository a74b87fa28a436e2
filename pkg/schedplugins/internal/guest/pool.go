package guest

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// pool has the instances of a module. The functions of the scheduling cycle use the shared one, which belongs to one pod after the other.
//
// A module with a prefilter begins there the state of a pod, to which the functions of the binding cycle refer, while the scheduling cycles of
// other pods run. So from Reserve to the end of its binding cycle a pod has the instance to itself, and the next scheduling cycle gets another
// one. The memory of such instances is bounded: a pod for which there is no room has a new instance for each call of its binding cycle, which
// begins without the state of its scheduling cycle.
type pool struct {
	binding sync.Mutex // held during calls of binding cycles that use no pod's instance: the scheduling loop never waits for more than one of them

	mu     sync.Mutex
	shared *instance
	pods   map[types.UID]*reserved
	kept   int // bytes of the instances in pods and free
	free   []*reserved
}

// reserved is an instance and its size when it was reserved.
type reserved struct {
	*instance
	bytes int
}

// MaxReserved bounds the memory of the instances in binding cycles and of those kept for later ones, maxFree the number of the latter.
const (
	MaxReserved = 256 << 20
	maxFree     = 8
)

// PerPod reports whether a pod has an instance to itself in its binding cycle.
func (m *Module) PerPod() bool {
	return m.Exports(PreFilter) && (m.Exports(Unreserve) || m.Exports(PreBind) || m.Exports(Bind) || m.Exports(PostBind))
}

// Call calls a function of the scheduling cycle.
func (m *Module) Call(ctx context.Context, name string, v *Values) (uint64, error) {
	return m.forCycle(v).call(ctx, name, v)
}

// forCycle returns the instance that is reserved for the pod, or the shared one.
func (m *Module) forCycle(v *Values) *instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Pod != nil {
		if r, ok := m.pods[v.Pod.UID]; ok {
			return r.instance
		}
	}
	return m.shared
}

// CallBinding calls a function of the binding cycle.
func (m *Module) CallBinding(ctx context.Context, name string, v *Values) (uint64, error) {
	v.binding = true
	if i := m.forCycle(v); i != m.sharedInstance() {
		return i.call(ctx, name, v)
	}
	m.binding.Lock()
	defer m.binding.Unlock()
	if !m.PerPod() {
		return m.sharedInstance().call(ctx, name, v)
	}
	fresh := &instance{of: m}
	defer fresh.drop(ctx)
	return fresh.call(ctx, name, v)
}

// Memory returns a number that changes when the memory of the scheduling cycle's instance is lost.
func (m *Module) Memory() int {
	i := m.sharedInstance()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.losses
}

func (m *Module) sharedInstance() *instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared
}

// Reserve gives the instance of the scheduling cycle to the pod until Release, if there is room.
func (m *Module) Reserve(uid types.UID) {
	size := m.sharedInstance().size()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept+size > MaxReserved {
		return
	}
	if m.pods == nil {
		m.pods = map[types.UID]*reserved{}
	}
	m.pods[uid] = &reserved{m.shared, size}
	m.kept += size
	m.shared = &instance{of: m}
	if last := len(m.free) - 1; last >= 0 {
		m.shared = m.free[last].instance
		m.kept -= m.free[last].bytes
		m.free = m.free[:last]
	}
}

// Release ends what Reserve began. It has no effect on other pods.
func (m *Module) Release(ctx context.Context, uid types.UID) {
	m.mu.Lock()
	r, ok := m.pods[uid]
	if !ok {
		m.mu.Unlock()
		return
	}
	delete(m.pods, uid)
	keep := len(m.free) < maxFree
	if keep {
		m.free = append(m.free, r)
	} else {
		m.kept -= r.bytes
	}
	m.mu.Unlock()
	if !keep {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drop(ctx)
	}
}
