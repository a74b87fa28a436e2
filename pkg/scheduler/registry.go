package scheduler

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/plug"
)

// Factory makes a plugin, once for each profile that uses it. args is nil, or what the configuration says under the
// plugin's name: a *runtime.Unknown with the JSON, or the typed object that a program put there.
type Factory = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Registry holds the plugins that there are, by name.
type Registry map[string]Factory

// find returns the factory of name, or an error that lists the names there are.
func (r Registry) find(name string) (Factory, error) {
	return plug.Set[Factory]{What: "scheduler plugin", Parts: r}.Find(name)
}

// NodeLocal is what a plugin implements, besides framework.SignPlugin, to let the scheduler remember its verdicts. It
// reports whether, for this pod in this cluster, what the plugin says about a node (Filter, and Score before it is
// normalised) and whether it skips depend on nothing but the pod's signature, that node, and properties of the cluster
// that only change when a node object does. Verdicts are then taken again only for nodes that changed.
type NodeLocal interface {
	framework.Plugin
	NodeLocal(pod *corev1.Pod, cluster framework.SharedLister) bool
}

// defaultPlugins are the plugins of a profile that says nothing, in order, with their weights. Those that are not in
// the registry are left out.
var defaultPlugins = []weighted{
	{"SchedulingGates", 0}, {"PrioritySort", 0}, {"NodeUnschedulable", 0}, {"NodeName", 0}, {"TaintToleration", 3},
	{"NodeAffinity", 2}, {"NodePorts", 0}, {"NodeResourcesFit", 1}, {"VolumeRestrictions", 0}, {"NodeVolumeLimits", 0},
	{"VolumeBinding", 0}, {"VolumeZone", 0}, {"PodTopologySpread", 2}, {"InterPodAffinity", 2}, {"DynamicResources", 2},
	{"DefaultPreemption", 0}, {"NodeResourcesBalancedAllocation", 1}, {"ImageLocality", 1}, {"DefaultBinder", 0},
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

// need is a feature of pods that only a plugin can honour.
type need struct {
	plugin string
	what   string
	used   func(*corev1.Pod) bool
}

// needs are the features whose plugin may be missing from a registry. A pod that uses one is refused with the plugin's
// name rather than placed as if it had not asked.
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

// missing returns what the pod needs and the registry does not have, or "".
func (r Registry) missing(pod *corev1.Pod) string {
	var lacks []string
	for _, n := range needs {
		if _, ok := r[n.plugin]; !ok && n.used(pod) {
			lacks = append(lacks, "pod uses "+n.what+", which needs the scheduler plugin "+n.plugin+", and this scheduler does not have it")
		}
	}
	return strings.Join(lacks, ", ")
}
