package kubelet

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// SimNode is the annotation of a simulated node with the state that it is in.
const SimNode = "minikctl.dev/sim-node"

// The values of SimNode.
const (
	SimNotReady = "NotReady" // the kubelet reports that the node is not ready
	SimDown     = "Down"     // the node is silent: no heartbeats, no statuses, and no pod starts or ends
)

// simState returns the state that the node's annotation requires, "" for a healthy node. An unknown value has no effect.
func (k *Kubelet) simState() string {
	if !k.Tier.Simulated {
		return ""
	}
	if node := k.currentNode(); node != nil {
		return node.Annotations[SimNode]
	}
	return ""
}

// down reports whether the node is simulated as silent. A node that is deleted meanwhile stays deleted.
func (k *Kubelet) down() bool { return k.simState() == SimDown }

// simReady returns the condition Ready of a simulated node.
func simReady(state string, ready corev1.NodeCondition) corev1.NodeCondition {
	switch state {
	case "", SimDown:
	case SimNotReady:
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "annotation "+SimNode+" is "+SimNotReady
	default:
		ready.Message += "; annotation " + SimNode + " is neither " + SimNotReady + " nor " + SimDown
	}
	return ready
}

// wake requests another look at the node's state.
func (k *Kubelet) wake() {
	k.awake.Store(true)
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// nodeChanged wakes up the kubelet of a simulated node whose state has changed, and enqueues the pods of a node that is no longer silent.
func (h *Host) nodeChanged(ch client.Change[*corev1.Node]) {
	if ch.Added() || ch.Deleted() || ch.Old.Annotations[SimNode] == ch.New.Annotations[SimNode] {
		return
	}
	k := h.kubelet(ch.New.Name)
	if k == nil || !k.Tier.Simulated {
		return
	}
	k.wake()
	if ch.Old.Annotations[SimNode] == SimDown {
		for _, pod := range k.pods.ByIndex(byNode, k.Name) {
			h.enqueue(keyOf(pod), ch.Revision)
		}
		h.mu.Lock()
		silent := slices.Collect(maps.Keys(h.silent))
		h.silent = map[objects.Key]struct{}{}
		h.mu.Unlock()
		for _, key := range silent {
			h.enqueueStatus(key)
		}
	}
}
