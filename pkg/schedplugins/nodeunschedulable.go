package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// nodeUnschedulable keeps pods off cordoned nodes, unless they tolerate the taint node.kubernetes.io/unschedulable.
type nodeUnschedulable struct {
	cooperative
	local
}

func newNodeUnschedulable(framework.Handle) framework.Plugin { return nodeUnschedulable{} }

func (nodeUnschedulable) Name() string { return "NodeUnschedulable" }

var cordoned = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return helper.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, taint, comparisonTolerations)
}

// comparisonTolerations is whether tolerations may compare numbers (Lt, Gt): the feature is off by default in 1.36.
const comparisonTolerations = false

func (nodeUnschedulable) Filter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	if !node.Node().Spec.Unschedulable || tolerates(pod, &cordoned) {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) were unschedulable")
}

func (nodeUnschedulable) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signature(framework.TolerationsSignerName, framework.TolerationsSigner(pod))
}

func (nodeUnschedulable) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	uncordoned := func(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		if p := podOf(now); p != nil {
			return queueIf(p.UID == pod.UID && tolerates(p, &cordoned)), nil
		}
		n := nodeOf(now)
		was := nodeOf(old)
		return queueIf(n != nil && !n.Spec.Unschedulable && (was == nil || was.Spec.Unschedulable)), nil
	}
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeTaint, uncordoned),
		on(framework.Pod, framework.UpdatePodToleration, uncordoned),
	}, nil
}
