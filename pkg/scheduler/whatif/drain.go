package whatif

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Drain makes nodes unschedulable and takes their pods off them, as kubectl drain does. It returns the pods that controllers create in their place, a
// Workload for each controller, and what a drain would warn of. Pods of DaemonSets and static pods stay.
func (c *Cluster) Drain(nodes []string) (replaced []Workload, warnings []string, err error) {
	for _, name := range nodes {
		i := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("nodes %q not found", name)
		}
		c.Nodes[i] = c.Nodes[i].DeepCopy()
		c.Nodes[i].Spec.Unschedulable = true
	}
	evicted := map[*corev1.Pod]bool{}
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		if !slices.Contains(nodes, pod.Spec.NodeName) || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" || owner != nil && owner.Kind == "DaemonSet" {
			return false
		}
		evicted[pod] = true
		if owner == nil {
			warnings = append(warnings, fmt.Sprintf("no controller replaces pod %s/%s", pod.Namespace, pod.Name))
			return true
		}
		name := fmt.Sprintf("%s/%s", owner.Kind, owner.Name)
		i := slices.IndexFunc(replaced, func(w Workload) bool { return w.Name == name && w.Pods[0].Namespace == pod.Namespace })
		if i < 0 {
			i, replaced = len(replaced), append(replaced, Workload{Name: name})
		}
		r := replacement(pod)
		replaced[i].Pods = append(replaced[i].Pods, r)
		claims := ephemeralClaims(r) // those of the evicted pod go with it
		c.Claims = slices.DeleteFunc(slices.Clone(c.Claims), func(old *corev1.PersistentVolumeClaim) bool {
			return slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return claimName(c) == claimName(old) })
		})
		c.addClaims(claims)
		return true
	})
	gone := map[types.UID]bool{}
	for pod := range evicted {
		gone[pod.UID] = true
	}
	c.free(gone)
	return replaced, append(warnings, c.blocked(evicted)...), nil
}

// replacement returns the pod that a controller creates in the place of pod, under its name.
func replacement(pod *corev1.Pod) *corev1.Pod {
	r := pod.DeepCopy()
	r.UID, r.ResourceVersion, r.Spec.NodeName, r.Status, r.DeletionTimestamp = types.UID("replaces-"+string(pod.UID)), "", "", corev1.PodStatus{}, nil
	return r
}

// blocked names the PodDisruptionBudgets that do not allow all of these evictions at once: a drain waits until replacements are ready.
func (c *Cluster) blocked(evicted map[*corev1.Pod]bool) (warnings []string) {
	for _, b := range c.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue // no API server accepts it
		}
		count := 0
		for pod := range evicted {
			if pod.Namespace == b.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				count++
			}
		}
		if allowed := int(b.Status.DisruptionsAllowed); count > allowed {
			warnings = append(warnings, fmt.Sprintf("PodDisruptionBudget %s/%s allows %d of %d evictions at a time", b.Namespace, b.Name, allowed, count))
		}
	}
	return warnings
}
