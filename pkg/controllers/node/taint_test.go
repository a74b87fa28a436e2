package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestPlanTaints(t *testing.T) {
	for _, c := range []struct {
		name      string
		ready     corev1.ConditionStatus
		cordoned  bool
		evict     bool
		have      []corev1.Taint
		want      string
		unchanged bool
	}{
		{name: "well", ready: corev1.ConditionTrue, unchanged: true},
		{name: "not ready", ready: corev1.ConditionFalse, want: "not-ready:NoSchedule"},
		{name: "not ready, evicted", ready: corev1.ConditionFalse, evict: true, want: "not-ready:NoSchedule not-ready:NoExecute"},
		{name: "unreachable, evicted", ready: corev1.ConditionUnknown, evict: true, want: "unreachable:NoSchedule unreachable:NoExecute"},
		{
			name: "no longer evicted", ready: corev1.ConditionUnknown,
			have: []corev1.Taint{taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)},
			want: "unreachable:NoSchedule",
		},
		{
			name: "well again", ready: corev1.ConditionTrue, evict: true,
			have: []corev1.Taint{taint("mine", corev1.TaintEffectNoExecute), taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)},
			want: "mine:NoExecute",
		},
		{
			name: "from one to the other", ready: corev1.ConditionUnknown, evict: true,
			have: []corev1.Taint{taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)},
			want: "unreachable:NoSchedule unreachable:NoExecute",
		},
		{name: "cordoned", ready: corev1.ConditionTrue, cordoned: true, want: "unschedulable:NoSchedule"},
		{
			name: "cordoned already", ready: corev1.ConditionTrue, cordoned: true,
			have: []corev1.Taint{taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}, unchanged: true,
		},
	} {
		n := &corev1.Node{
			Spec:   corev1.NodeSpec{Taints: c.have, Unschedulable: c.cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready}}},
		}
		got := planTaints(n, c.evict, noon)
		if c.unchanged || got == nil {
			if got != nil || !c.unchanged {
				t.Errorf("%s: got %+v", c.name, got)
			}
			continue
		}
		var text []string
		for _, taint := range got.list {
			text = append(text, strings.TrimPrefix(taint.Key, "node.kubernetes.io/")+":"+string(taint.Effect))
		}
		if s := strings.Join(text, " "); s != c.want {
			t.Errorf("%s: got %s, want %s", c.name, s, c.want)
		}
	}
}

func TestToleratesFor(t *testing.T) {
	one, five := int64(1), int64(5)
	a, b := taint("a", corev1.TaintEffectNoExecute), corev1.Taint{Key: "b", Value: "v", Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name        string
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string
	}{
		{"no taints", nil, nil, "0s false"},
		{"not tolerated", []corev1.Taint{a}, nil, "0s true"},
		{"for ever", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, "0s false"},
		{"everything", []corev1.Taint{a, b}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, "0s false"},
		{"for a while", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &five}}, "5s true"},
		{"the shortest", []corev1.Taint{a, b}, []corev1.Toleration{
			{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: &five}, {Key: "b", Value: "v", TolerationSeconds: &one},
		}, "1s true"},
		{"another value", []corev1.Taint{b}, []corev1.Toleration{{Key: "b", Value: "w"}}, "0s true"},
		{"another effect", []corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, "0s true"},
	} {
		after, evict := toleratesFor(c.taints, c.tolerations)
		if got := fmt.Sprint(after, evict); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
