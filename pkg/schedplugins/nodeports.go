package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// nodePorts keeps pods off nodes where one of their host ports is in use.
type nodePorts struct {
	cooperative
	local
}

func newNodePorts(framework.Handle) framework.Plugin { return nodePorts{} }

func (nodePorts) Name() string { return "NodePorts" }

func (nodePorts) PreFilter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if len(podref.HostPorts(pod)) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, nil
}

func (nodePorts) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (nodePorts) Filter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	used := node.GetUsedPorts()
	if len(used) == 0 {
		return nil
	}
	for _, p := range podref.HostPorts(pod) {
		if used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort) {
			return framework.NewStatus(framework.Unschedulable, "node(s) didn't have free ports for the requested pod ports")
		}
	}
	return nil
}

// SignPod signs the ports with address and protocol, on which conflicts depend too.
func (nodePorts) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signature("minikctl.dev/hostPorts", podref.HostPorts(pod))
}

func (nodePorts) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	freed := func(_ klog.Logger, pod *corev1.Pod, old, _ any) (framework.QueueingHint, error) {
		gone := podOf(old)
		if gone == nil || gone.Spec.NodeName == "" {
			return framework.QueueSkip, nil
		}
		held := framework.HostPortInfo{}
		for _, p := range podref.HostPorts(gone) {
			held.Add(p.HostIP, string(p.Protocol), p.HostPort)
		}
		for _, p := range podref.HostPorts(pod) {
			if held.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort) {
				return framework.Queue, nil
			}
		}
		return framework.QueueSkip, nil
	}
	return []framework.ClusterEventWithHint{on(framework.Pod, framework.Delete, freed), on(framework.Node, framework.Add, nil)}, nil
}
