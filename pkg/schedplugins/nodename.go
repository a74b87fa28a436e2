package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// nodeName keeps a pod that names its node off all others.
type nodeName struct {
	cooperative
	local
}

func newNodeName(framework.Handle) framework.Plugin { return nodeName{} }

func (nodeName) Name() string { return "NodeName" }

func (nodeName) Filter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Node().Name {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) didn't match the requested node name")
}

func (nodeName) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signature(framework.NodeNameSignerName, pod.Spec.NodeName)
}

func (nodeName) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{on(framework.Node, framework.Add, nil)}, nil
}
