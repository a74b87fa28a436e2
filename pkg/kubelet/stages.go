package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Stages plays Stages for the pods and nodes of simulated nodes. Implementations are safe for concurrent use.
type Stages interface {
	// OwnsPod reports whether the kubelet leaves a pod alone, because Stages determine its life.
	OwnsPod(pod *corev1.Pod) bool
	// OwnsNode reports whether the kubelet leaves the status of a node alone. It renews the Lease nevertheless.
	OwnsNode(node *corev1.Node) bool
	// HasNodeStages reports whether there are Stages for nodes.
	HasNodeStages() bool
	// Follow sets the function that is called after OwnsPod, OwnsNode and HasNodeStages may have changed for any object.
	Follow(changed func())
	// Synced is closed once the Stages that exist at the start are in effect.
	Synced() <-chan struct{}
}

// waitForStages waits until Stages are in effect, if the node is simulated.
func (k *Kubelet) waitForStages(ctx context.Context) {
	if !k.Tier.Simulated || k.host.Stages == nil {
		return
	}
	select {
	case <-k.host.Stages.Synced():
	case <-ctx.Done():
	}
}

// leavesPod reports whether a pod of the node belongs to Stages.
func (k *Kubelet) leavesPod(pod *corev1.Pod) bool {
	return k.Tier.Simulated && k.host.Stages != nil && k.host.Stages.OwnsPod(pod)
}

// leavesStatus reports whether the status of the node belongs to Stages.
func (k *Kubelet) leavesStatus() bool {
	if !k.Tier.Simulated || k.host.Stages == nil || !k.host.Stages.HasNodeStages() {
		return false
	}
	node := k.currentNode()
	return node != nil && k.host.Stages.OwnsNode(node)
}

// phase is the node's phase. kubelets leave it empty, but Stages select simulated nodes by it.
func (k *Kubelet) phase(old *corev1.Node) corev1.NodePhase {
	switch {
	case !k.Tier.Simulated:
		return ""
	case k.host.Stages != nil && k.host.Stages.HasNodeStages():
		return corev1.NodeRunning
	case old != nil:
		return old.Status.Phase
	}
	return ""
}

// stagesChanged syncs the simulated pods and nodes again.
func (h *Host) stagesChanged() {
	for _, k := range h.allKubelets() {
		if !k.Tier.Simulated {
			continue
		}
		k.wake()
		for _, pod := range k.pods.ByIndex(byNode, k.Name) {
			h.enqueue(keyOf(pod), 0)
		}
	}
}
