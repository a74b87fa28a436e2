package whatif

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// group is a PodGroup: one of Kubernetes' API, or one of scheduling.x-k8s.io, to which pods belong by a label.
type group struct {
	objects.Key
	labelled bool
}

// labelledGroups are the PodGroups of scheduling.x-k8s.io, as a resource of events, and groupLabel is the label of their pods.
const (
	labelledGroups framework.EventResource = "podgroups.v1alpha1.scheduling.x-k8s.io"
	groupLabel                             = "scheduling.x-k8s.io/pod-group"
)

// labelReaders are the schedulers of a configuration that schedule the pods of a group of scheduling.x-k8s.io together: their profiles have the plugin
// Coscheduling, whose Permit keeps the pods from being bound one by one.
type labelReaders []string

func newLabelReaders(q scheduler.Simulation) labelReaders {
	return q.SchedulersWith("Coscheduling", "permit")
}

// has reports whether the scheduler of a pod is one of them.
func (r labelReaders) has(pod *corev1.Pod) bool {
	return slices.Contains(r, cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName))
}

// groupOf returns the PodGroup of a pod.
func groupOf(pod *corev1.Pod) (g group, ok bool) {
	g.Namespace = pod.Namespace
	if s := pod.Spec.SchedulingGroup; s != nil && s.PodGroupName != nil {
		g.Name = *s.PodGroupName
		return g, true
	}
	g.Name, g.labelled = pod.Labels[groupLabel], true
	return g, g.Name != ""
}

// minimums returns the number of pods that each PodGroup needs, besides those that are on a node already.
func (c *Cluster) minimums() map[group]int {
	out := map[group]int{}
	for _, obj := range c.PodGroups {
		if of, need, gang := minimumOf(obj); gang {
			out[of] = need
		}
	}
	for _, pod := range c.Pods {
		g, ok := groupOf(pod)
		if _, needed := out[g]; ok && needed && pod.Spec.NodeName != "" {
			out[g]--
		}
	}
	return out
}

// minimumOf returns the group of a PodGroup object, and the number of pods that it needs if it is a gang.
func minimumOf(obj objects.Object) (of group, need int, gang bool) {
	key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch o := obj.(type) {
	case *schedulingv1alpha2.PodGroup:
		if policy := o.Spec.SchedulingPolicy.Gang; policy != nil {
			return group{key, false}, int(policy.MinCount), true
		}
	case *unstructured.Unstructured:
		switch n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "minMember"); n := n.(type) {
		case int64:
			return group{key, true}, int(n), true
		case float64: // of YAML
			return group{key, true}, int(n), true
		}
		return group{key, true}, 0, false
	}
	return group{key, false}, 0, false
}

// otherObjects returns what plugins find besides nodes and pods.
func (c *Cluster) otherObjects() map[framework.EventResource][]objects.Object {
	out := c.objects()
	c.Devices.addTo(out)
	for _, obj := range c.PodGroups {
		of := labelledGroups
		if _, ok := obj.(*schedulingv1alpha2.PodGroup); ok {
			of = framework.PodGroup
		}
		out[of] = append(out[of], obj)
	}
	return out
}
