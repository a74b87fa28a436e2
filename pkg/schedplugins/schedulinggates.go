package schedplugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// schedulingGates keeps a pod from being tried while it has scheduling gates.
type schedulingGates struct{ cooperative }

func newSchedulingGates(framework.Handle) framework.Plugin { return schedulingGates{} }

func (schedulingGates) Name() string { return "SchedulingGates" }

func (schedulingGates) PreEnqueue(_ context.Context, p *corev1.Pod) *framework.Status {
	if len(p.Spec.SchedulingGates) == 0 {
		return nil
	}
	gates := make([]string, 0, len(p.Spec.SchedulingGates))
	for _, g := range p.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for scheduling gates: %v", gates))
}

// EventsToRegister returns the only event that can help: an update of the pod that removes its last gate.
func (schedulingGates) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	gone := func(_ klog.Logger, pod *corev1.Pod, _, now any) (framework.QueueingHint, error) {
		p := podOf(now)
		return queueIf(p != nil && p.UID == pod.UID), nil
	}
	return []framework.ClusterEventWithHint{on(framework.Pod, framework.UpdatePodSchedulingGatesEliminated, gone)}, nil
}
