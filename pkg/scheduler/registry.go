package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-scheduler/framework"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/plug"
)

// Factory creates a plugin for a profile. args is nil without a pluginConfig. Otherwise it is a
// *runtime.Unknown with JSON (from a configuration file) or the typed args object (from a Go program that embeds the
// scheduler).
type Factory = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Registry maps names to plugin factories. The factory of a name NAME/* creates any number of instances of one plugin, which a
// configuration calls NAME/INSTANCE and gives different arguments.
type Registry map[string]Factory

// Has reports whether the registry has a plugin of the name, or a factory of instances like it.
func (r Registry) Has(name string) bool {
	_, err := r.find(name)
	return err == nil
}

// find returns the factory of name, or an error that lists the known names.
func (r Registry) find(name string) (Factory, error) {
	if family, instance, ok := strings.Cut(name, "/"); ok && instance != "" && instance != "*" {
		if f, ok := r[family+"/*"]; ok {
			return f, nil
		}
	}
	f, err := plug.Set[Factory]{What: "scheduler plugin", Parts: r}.Find(name)
	if strings.HasSuffix(name, "/*") && err == nil {
		return nil, fmt.Errorf("scheduler plugin %q: name an instance instead of *", name)
	}
	return f, err
}

// unknown returns the error of a name that the registry does not have.
func (r Registry) unknown(path *field.Path, name string) *field.Error {
	return field.NotSupported(path, name, slices.Sorted(maps.Keys(r)))
}

// NodeLocal is an optional interface of plugins that implement framework.SignPlugin. It lets the scheduler cache the
// results of Filter and Score. NodeLocal returns true if, for this pod in this cluster, these results (before
// normalization), and whether the plugin skips the pod, depend only on the pod's signature, on the node, and on
// properties of the cluster that change only with a Node object. The scheduler then runs the plugin again only for
// nodes that changed.
type NodeLocal interface {
	framework.Plugin
	NodeLocal(pod *corev1.Pod, cluster framework.SharedLister) bool
}

// Incremental is an optional interface of plugins that implement framework.SignPlugin and whose results for a node depend
// on the pods of other nodes, too, e.g. on the number of pods in a zone. It lets the scheduler cache the results of Filter
// and Score as those of a NodeLocal plugin. Before it uses them for another pod of the same signature, it passes the
// changes since to UpdateFilter and UpdateScore. These update the data in the state and add to stale the nodes whose
// results may differ now. The nodes in changes are filtered and scored again in any case, and no Node object has changed.
//
// Both methods return false if they cannot update the state, or if PreFilter or PreScore would now return another status,
// e.g. no longer Skip. The scheduler then filters and scores all nodes as for a first pod. They are also called after
// PreFilter or PreScore returned Skip.
type Incremental interface {
	framework.SignPlugin
	// UpdateFilter updates what PreFilter wrote to state.
	UpdateFilter(state framework.CycleState, pod *corev1.Pod, changes []PodChange, stale *Stale) bool
	// UpdateScore updates what PreScore wrote to state. Some nodes may have joined the nodes that pass Filter, others left
	// them.
	UpdateScore(state framework.CycleState, pod *corev1.Pod, changes []PodChange, joined, left []framework.NodeInfo, stale *Stale) bool
}

// PodChange is a pod that was added to a node (By is 1) or removed from it (By is -1).
type PodChange struct {
	Pod  framework.PodInfo
	Node framework.NodeInfo
	By   int
}

// KeyedSort is an optional interface of QueueSort plugins whose order depends on state outside of the pods that are compared, such as when their
// group failed last. The order of a heap is lost when what Less returns for two pods in it changes, so the engine compares the pods of the
// activeQ by keys that it keeps for each of them: from when the pod is queued, or updated there, until it is the first. Its key is then computed
// again, and the pod is sorted again if this is another one. A key that becomes earlier takes effect when the pod is queued again, or is the first.
type KeyedSort interface {
	framework.QueueSortPlugin
	// SortKey returns the part of a pod's order that changes: a value that can be compared by ==.
	SortKey(framework.QueuedPodInfo) any
	// LessKeyed is Less for pods with these keys, and depends on no other state that changes.
	LessKeyed(a, b framework.QueuedPodInfo, keyA, keyB any) bool
}

// Partial is an optional interface of plugins whose type has more extension points than they use, e.g. those of a module that is loaded.
type Partial interface {
	framework.Plugin
	// Implements reports whether the plugin has an extension point, by its name in configurations: preFilter. sign is that of
	// framework.SignPlugin, which has none there.
	Implements(point string) bool
}

// CycleData is an optional interface of framework.StateData that only PreFilter to PostFilter plugins read. Later extension
// points do not find it in the state, which saves a copy for each pod.
type CycleData interface {
	framework.StateData
	CycleOnly()
}

// SkipsBinding is an optional interface of plugins that have nothing to do in the binding cycle of a pod that their PreFilter has skipped: Reserve,
// Unreserve, PreBind and PostBind are not called then.
type SkipsBinding interface {
	framework.Plugin
	SkipsBinding()
}

// Cooperative is an optional interface of plugins whose calls do not block. In the scheduling cycle they only compute, and
// in a binding cycle they return soon after their context ends. The engine calls them on the goroutine of the loop, without
// a time-out, which saves several microseconds a pod. It recovers their panics, as those of any plugin. If a call of a
// cooperative plugin hangs, the scheduler stops. So a plugin that calls the API, takes a lock or runs foreign code in the
// scheduling cycle must not implement Cooperative. The scheduling cycle of a profile runs without a change of goroutine only
// if all of its plugins are cooperative.
type Cooperative interface {
	framework.Plugin
	Cooperative()
}

// Explainer is an optional interface of Filter plugins. Explain returns the property of a node, e.g. a taint, for which
// Filter rejected the pod. "minikctl why" shows it.
type Explainer interface {
	framework.Plugin
	Explain(pod *corev1.Pod, node framework.NodeInfo) string
}

// defaultPlugins are the plugins of a profile without configuration, in order, with their weights. Those that are not
// in the registry are left out.
var defaultPlugins = []weighted{
	{"SchedulingGates", 0}, {"PrioritySort", 0}, {"NodeUnschedulable", 0}, {"NodeName", 0}, {"TaintToleration", 3},
	{"NodeAffinity", 2}, {"NodePorts", 0}, {"NodeResourcesFit", 1}, {"VolumeRestrictions", 0}, {"NodeVolumeLimits", 0},
	{"VolumeBinding", 0}, {"VolumeZone", 0}, {"PodTopologySpread", 2}, {"InterPodAffinity", 2}, {"DynamicResources", 2},
	{"DefaultPreemption", 0}, {"NodeResourcesBalancedAllocation", 1}, {"ImageLocality", 1}, {"DefaultBinder", 0},
	{"NodeDeclaredFeatures", 0},
}

// defaultsWith returns the default plugins of a cluster with these feature gates.
func defaultsWith(g feature.Gates) []weighted {
	out := slices.Clone(defaultPlugins)
	if g.GangScheduling {
		out = append(out, weighted{"GangScheduling", 0})
	}
	if g.TopologyAwareWorkloadScheduling {
		out = append(out, weighted{"TopologyPlacementGenerator", 0}, weighted{"PodGroupPodsCount", 1})
	}
	return out
}

type weighted struct {
	name   string
	weight int32
}

// isDefault reports whether stock Kubernetes enables the plugin by default.
func isDefault(name string) bool {
	for _, p := range defaultPlugins {
		if p.name == name {
			return true
		}
	}
	return false
}

// need is a feature of pods that requires a certain plugin.
type need struct {
	plugin string
	what   string
	used   func(*corev1.Pod) bool
}

// needs lists the features whose plugin may be missing from a registry. A pod that uses such a feature is rejected with
// the plugin's name, instead of being scheduled without it.
var needs = []need{
	{"InterPodAffinity", "required inter-pod affinity", requiresInterPodAffinity},
	{"PodTopologySpread", "topologySpreadConstraints with DoNotSchedule", requiresSpread},
	{"VolumeBinding", "persistent volume claims", usesClaims},
	{"DynamicResources", "resource claims", func(p *corev1.Pod) bool { return len(p.Spec.ResourceClaims) > 0 }},
	{"NodePorts", "host ports", usesHostPorts},
	{"SchedulingGates", "scheduling gates", func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }},
}

func requiresInterPodAffinity(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

func requiresSpread(p *corev1.Pod) bool {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	return false
}

func usesClaims(p *corev1.Pod) bool {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

func usesHostPorts(p *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			for _, port := range c.Ports {
				if port.HostPort > 0 {
					return true
				}
			}
		}
	}
	return false
}

// missing returns the feature that the pod uses and the registry lacks, or "".
func (r Registry) missing(pod *corev1.Pod) string {
	var lacks []string
	for _, n := range needs {
		if _, ok := r[n.plugin]; !ok && n.used(pod) {
			lacks = append(lacks, "pod uses "+n.what+", which needs the scheduler plugin "+n.plugin+", and this scheduler does not have it")
		}
	}
	return strings.Join(lacks, ", ")
}
