package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// conditionTaints maps a condition with a status to the key of its taint.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
}

// newTaints is the list of taints that a node needs.
type newTaints struct{ list []corev1.Taint }

// evictionTaints are the keys of the NoExecute taints of nodes that are not ready, by the status of the condition Ready.
var evictionTaints = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}

// evicted reports whether a node has a taint that evicts its pods because it is not ready.
func evicted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && slices.Contains(evictionTaints, t.Key)
	})
}

// planTaints returns the taints that a node needs, nil if it has them. Taints that do not follow from conditions stay. A node that is
// not ready gets its NoExecute taint if evict is true.
func planTaints(node *corev1.Node, evict bool, now time.Time) *newTaints {
	want := map[corev1.Taint]bool{} // without values and times
	ours := map[corev1.Taint]bool{}
	note := func(key string, effect corev1.TaintEffect, is bool) {
		t := corev1.Taint{Key: key, Effect: effect}
		ours[t] = true
		want[t] = want[t] || is
	}
	for _, ct := range conditionTaints {
		c := nodeCondition(node, ct.condition)
		is := c != nil && c.Status == ct.status
		note(ct.key, corev1.TaintEffectNoSchedule, is)
		if ct.condition == corev1.NodeReady {
			note(ct.key, corev1.TaintEffectNoExecute, is && evict)
		}
	}
	note(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, node.Spec.Unschedulable)
	changed := false
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		bare := corev1.Taint{Key: t.Key, Effect: t.Effect}
		drop := ours[bare] && !want[bare]
		changed = changed || drop
		want[bare] = false // the node has it
		return drop
	})
	for _, t := range orderedTaints(want) {
		added := metav1.NewTime(now.Truncate(time.Second))
		t.TimeAdded = &added
		kept, changed = append(kept, t), true
	}
	if !changed {
		return nil
	}
	return &newTaints{kept}
}

// orderedTaints returns the wanted taints in the order of conditionTaints, NoSchedule before NoExecute.
func orderedTaints(want map[corev1.Taint]bool) []corev1.Taint {
	var out []corev1.Taint
	keys := []string{corev1.TaintNodeUnschedulable}
	for _, ct := range conditionTaints {
		keys = append(keys, ct.key)
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		for _, key := range keys {
			if t := (corev1.Taint{Key: key, Effect: effect}); want[t] {
				out = append(out, t)
			}
		}
	}
	return out
}

// taint updates the taints that follow from a node's conditions. evict is that of planTaints.
func (r *nodeLifecycle) taint(ctx context.Context, node *corev1.Node, evict bool) error {
	taints := planTaints(node, evict, r.clock.Now())
	if taints == nil {
		return nil
	}
	next := node.DeepCopy()
	next.Spec.Taints = taints.list
	return r.update(ctx, next)
}

// update writes a node.
func (r *nodeLifecycle) update(ctx context.Context, next *corev1.Node) error {
	out, err := r.client.Update(ctx, client.Target{Resource: client.Nodes, Name: next.Name}, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	written, ok := out.(*corev1.Node)
	if !ok {
		return fmt.Errorf("update node %s: the response is a %T", next.Name, out)
	}
	r.nodes.Put(written)
	return nil
}
