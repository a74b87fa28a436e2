// Package metrics holds the rows of the group metrics.k8s.io, what nodes and pods use now, in the form of Kubernetes' metrics-server.
// The resources are virtual: kubelets report them when a client reads them (see Report).
package metrics

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Group is the API group of this package. Its priorities are those of metrics-server.
var Group = objects.Group{Name: v1beta1.GroupName, Priority: 100, Versions: []objects.GroupVersion{{Version: "v1beta1", Priority: 100}}}

// The group's resources.
var (
	Pods  = v1beta1.SchemeGroupVersion.WithResource("pods")
	Nodes = v1beta1.SchemeGroupVersion.WithResource("nodes")
)

// The paths of a kubelet's server that return a Report. ReportedPods has the optional query parameter namespace.
const (
	ReportedPods  = "/usage/pods"
	ReportedNodes = "/usage/nodes"
)

// Report is what a kubelet's server reports, in JSON: the usage of the running pods, or that of the nodes. The objects have no labels.
type Report struct {
	Pods  []v1beta1.PodMetrics  `json:"pods,omitempty"`
	Nodes []v1beta1.NodeMetrics `json:"nodes,omitempty"`
}

// Rows returns the rows of the group.
func Rows() []objects.Resource { return []objects.Resource{objects.Row(pods), objects.Row(nodes)} }

var pods = objects.Def[*v1beta1.PodMetrics]{
	Names:   objects.Names{Group: Group.Name, Version: "v1beta1", Kind: "PodMetrics", Plural: Pods.Resource, Singular: "pod"},
	New:     func() *v1beta1.PodMetrics { return new(v1beta1.PodMetrics) },
	NewList: func() runtime.Object { return new(v1beta1.PodMetricsList) },
	Verbs:   []string{"get", "list"},
	Columns: columns(func(m *v1beta1.PodMetrics) (corev1.ResourceList, time.Duration) {
		return Sum(m.Containers), m.Window.Duration
	}),
}

var nodes = objects.Def[*v1beta1.NodeMetrics]{
	Names:   objects.Names{Group: Group.Name, Version: "v1beta1", Kind: "NodeMetrics", Plural: Nodes.Resource, Singular: "node", Cluster: true},
	New:     func() *v1beta1.NodeMetrics { return new(v1beta1.NodeMetrics) },
	NewList: func() runtime.Object { return new(v1beta1.NodeMetricsList) },
	Verbs:   []string{"get", "list"},
	Columns: columns(func(m *v1beta1.NodeMetrics) (corev1.ResourceList, time.Duration) { return m.Usage, m.Window.Duration }),
}

// columns returns the columns of metrics-server.
func columns[T objects.Object](of func(T) (corev1.ResourceList, time.Duration)) []objects.Column[T] {
	quantity := func(name corev1.ResourceName) func(T, time.Time) any {
		return func(obj T, _ time.Time) any {
			usage, _ := of(obj)
			q := usage[name]
			return q.String()
		}
	}
	return []objects.Column[T]{
		objects.NameColumn[T](),
		{Name: "cpu", Description: "The CPU cores in use.", Cell: quantity(corev1.ResourceCPU)},
		{Name: "memory", Description: "The memory in use.", Cell: quantity(corev1.ResourceMemory)},
		{Name: "Window", Description: "The time over which the usage was measured.", Cell: func(obj T, _ time.Time) any {
			_, window := of(obj)
			return window.String()
		}},
	}
}

// Sum returns what containers use together.
func Sum(containers []v1beta1.ContainerMetrics) corev1.ResourceList {
	total := corev1.ResourceList{}
	for _, c := range containers {
		for name, q := range c.Usage {
			sum := total[name]
			if sum.IsZero() {
				sum = q.DeepCopy() // with its format
			} else {
				sum.Add(q)
			}
			total[name] = sum
		}
	}
	return total
}
