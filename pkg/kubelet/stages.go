package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
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
	synced := func() bool {
		select {
		case <-k.host.Stages.Synced():
			return true
		default:
			return false
		}
	}
	clock.WorkOf(ctx).Idle(synced, func() { // on a clock with turns, the Engine may need a turn before they are in effect
		select {
		case <-k.host.Stages.Synced():
		case <-ctx.Done():
		}
	})
}

// leavesPod reports whether a pod of the node belongs to Stages.
func (k *Kubelet) leavesPod(pod *corev1.Pod) bool {
	return k.Tier.Simulated && k.host.Stages != nil && k.host.Stages.OwnsPod(pod)
}

// stagedPods returns the pods in a namespace ("": all) that run because a Stage says so: the runtime does not have them.
func (k *Kubelet) stagedPods(namespace string) []Pod {
	if !k.Tier.Simulated || k.host.Stages == nil {
		return nil
	}
	var out []Pod
	for _, pod := range k.pods.ByIndex(byNode, k.Name) {
		if _, ok := k.view(pod.UID); ok || namespace != "" && pod.Namespace != namespace || !k.leavesPod(pod) {
			continue
		}
		staged := Pod{PodSpec: podSpecFor(pod)}
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running != nil {
				staged.Containers = append(staged.Containers, Container{
					ID: ContainerID(string(pod.UID) + "_" + c.Name), Name: c.Name, Started: c.State.Running.StartedAt.Time, Running: true,
				})
			}
		}
		if len(staged.Containers) > 0 {
			out = append(out, staged)
		}
	}
	return out
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
