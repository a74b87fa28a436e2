package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// planTaints returns the taints that a node needs, nil if it has them. Taints that do not follow from conditions stay. noneReady
// means that no node of the cluster is ready: then a node gets no NoExecute taint.
func planTaints(node *corev1.Node, noneReady bool, now time.Time) *newTaints {
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
			note(ct.key, corev1.TaintEffectNoExecute, is && !noneReady)
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
