package schedplugins

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/schedplugins/internal/guest"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// wasmCache lets the scheduler use a module's results for equal pods. The module sees only the declared fields of pods, so its results depend on no
// others. The scheduler calls filter and score again for nodes that changed, perhaps long after prefilter, and for another pod than the last one:
// then the module's memory has the state of that one, and prefilter is called again.
type wasmCache struct {
	key    string
	fields []string // sorted

	mu               sync.Mutex
	filtered, scored memoryState // of prefilter and prescore
}

// podFields copy the fields of pods that a module's results may depend on.
var podFields = map[string]func(to, from *corev1.Pod){
	"metadata.name":                  func(to, from *corev1.Pod) { to.Name = from.Name },
	"metadata.namespace":             func(to, from *corev1.Pod) { to.Namespace = from.Namespace },
	"metadata.labels":                func(to, from *corev1.Pod) { to.Labels = from.Labels },
	"metadata.annotations":           func(to, from *corev1.Pod) { to.Annotations = from.Annotations },
	"metadata.ownerReferences":       func(to, from *corev1.Pod) { to.OwnerReferences = from.OwnerReferences },
	"spec.affinity":                  func(to, from *corev1.Pod) { to.Spec.Affinity = from.Spec.Affinity },
	"spec.containers":                func(to, from *corev1.Pod) { to.Spec.Containers = from.Spec.Containers },
	"spec.hostNetwork":               func(to, from *corev1.Pod) { to.Spec.HostNetwork = from.Spec.HostNetwork },
	"spec.initContainers":            func(to, from *corev1.Pod) { to.Spec.InitContainers = from.Spec.InitContainers },
	"spec.nodeSelector":              func(to, from *corev1.Pod) { to.Spec.NodeSelector = from.Spec.NodeSelector },
	"spec.overhead":                  func(to, from *corev1.Pod) { to.Spec.Overhead = from.Spec.Overhead },
	"spec.preemptionPolicy":          func(to, from *corev1.Pod) { to.Spec.PreemptionPolicy = from.Spec.PreemptionPolicy },
	"spec.priority":                  func(to, from *corev1.Pod) { to.Spec.Priority = from.Spec.Priority },
	"spec.priorityClassName":         func(to, from *corev1.Pod) { to.Spec.PriorityClassName = from.Spec.PriorityClassName },
	"spec.resources":                 func(to, from *corev1.Pod) { to.Spec.Resources = from.Spec.Resources },
	"spec.runtimeClassName":          func(to, from *corev1.Pod) { to.Spec.RuntimeClassName = from.Spec.RuntimeClassName },
	"spec.schedulerName":             func(to, from *corev1.Pod) { to.Spec.SchedulerName = from.Spec.SchedulerName },
	"spec.serviceAccountName":        func(to, from *corev1.Pod) { to.Spec.ServiceAccountName = from.Spec.ServiceAccountName },
	"spec.tolerations":               func(to, from *corev1.Pod) { to.Spec.Tolerations = from.Spec.Tolerations },
	"spec.topologySpreadConstraints": func(to, from *corev1.Pod) { to.Spec.TopologySpreadConstraints = from.Spec.TopologySpreadConstraints },
}

func newWasmCache(plugin string, fields []string) (*wasmCache, error) {
	for i, name := range fields {
		if _, ok := podFields[name]; !ok {
			return nil, field.NotSupported(field.NewPath("cache", "podFields").Index(i), name, slices.Sorted(maps.Keys(podFields)))
		}
	}
	fields = slices.Clone(fields)
	slices.Sort(fields)
	return &wasmCache{key: "minikctl.dev/" + plugin, fields: slices.Compact(fields)}, nil
}

// check returns an error for a module with functions that would use another pod's state.
func (c *wasmCache) check(m *guest.Module) error {
	var has []string
	for _, name := range []string{guest.Reserve, guest.Unreserve, guest.Permit, guest.PreBind, guest.Bind, guest.PostBind} {
		if m.Exports(name) {
			has = append(has, name)
		}
	}
	if len(has) > 0 {
		return field.Forbidden(field.NewPath("cache"), "the module has "+strings.Join(has, ", ")+": they could use what it keeps of another, equal pod")
	}
	return nil
}

// copyOf returns a pod with the declared fields.
func (c *wasmCache) copyOf(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{}
	for _, name := range c.fields {
		podFields[name](out, pod)
	}
	return out
}

// visible returns what the module sees of a pod.
func (p *wasmPlugin) visible(pod *corev1.Pod) *corev1.Pod {
	if p.cache == nil {
		return pod
	}
	return p.cache.copyOf(pod)
}

var (
	_ framework.SignPlugin = (*wasmPlugin)(nil)
	_ scheduler.NodeLocal  = (*wasmPlugin)(nil)
)

// SignPod returns the declared fields of the pod.
func (p *wasmPlugin) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if p.cache == nil {
		return nil, framework.NewStatus(framework.Unschedulable, "the module's results are not cached")
	}
	return signature(p.cache.key, p.cache.copyOf(pod))
}

// NodeLocal implements scheduler.NodeLocal.
func (p *wasmPlugin) NodeLocal(*corev1.Pod, framework.SharedLister) bool { return p.cache != nil }

// memoryState is the pod whose state the module's memory has.
type memoryState struct {
	pod    *corev1.Pod // the last one with the key
	key    string      // the declared fields; "": none
	memory int         // guest.Module.Memory
}

// of reports whether the state is that of a pod.
func (s *memoryState) of(c *wasmCache, pod *corev1.Pod, memory int) bool {
	if s.key == "" || s.memory != memory || s.pod != pod && s.key != c.keyOf(pod) {
		return false
	}
	s.pod = pod
	return true
}

func (c *wasmCache) keyOf(pod *corev1.Pod) string {
	b, err := json.Marshal(c.copyOf(pod))
	if err != nil {
		return "" // JSON cannot hold a field: the state is that of no pod
	}
	return string(b)
}

// began records after a call of prefilter or prescore which pod's state the module's memory has.
func (p *wasmPlugin) began(state *memoryState, pod *corev1.Pod, status *framework.Status) {
	*state = memoryState{}
	if status.IsSuccess() || status.IsSkip() {
		*state = memoryState{pod, p.cache.keyOf(pod), p.module.Memory()}
	}
}

// preFilter calls prefilter.
func (p *wasmPlugin) preFilter(ctx context.Context, v *guest.Values, pod *corev1.Pod) *framework.Status {
	if p.cache == nil {
		return p.verdict(ctx, guest.PreFilter, v)
	}
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	status := p.verdict(ctx, guest.PreFilter, v)
	p.began(&p.cache.filtered, pod, status)
	p.cache.scored = memoryState{}
	return status
}

// preScore calls prescore.
func (p *wasmPlugin) preScore(ctx context.Context, v *guest.Values, pod *corev1.Pod) *framework.Status {
	status := p.verdict(ctx, guest.PreScore, v)
	if p.cache != nil {
		p.cache.mu.Lock()
		defer p.cache.mu.Unlock()
		p.began(&p.cache.scored, pod, status)
	}
	return status
}

// resume calls prefilter, and before a score prescore, for a pod whose state the module's memory does not have. prescore then gets all nodes: what
// it returns for the one at hand must not depend on them.
func (p *wasmPlugin) resume(ctx context.Context, pod *corev1.Pod, scoring bool) *framework.Status {
	c := p.cache
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.module.Exports(guest.PreFilter) && !c.filtered.of(c, pod, p.module.Memory()) {
		status := p.verdict(ctx, guest.PreFilter, &guest.Values{Pod: c.copyOf(pod)})
		p.began(&c.filtered, pod, status)
		c.scored = memoryState{}
		if c.filtered.key == "" {
			return framework.AsStatus(fmt.Errorf("wasm: prefilter, called again: %w", status.AsError()))
		}
	}
	if !scoring || !p.module.Exports(guest.PreScore) || c.scored.of(c, pod, p.module.Memory()) {
		return nil
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return framework.AsStatus(err)
	}
	status := p.verdict(ctx, guest.PreScore, &guest.Values{Pod: c.copyOf(pod), Nodes: nodes})
	p.began(&c.scored, pod, status)
	if c.scored.key == "" {
		return framework.AsStatus(fmt.Errorf("wasm: prescore, called again: %w", status.AsError()))
	}
	return nil
}
