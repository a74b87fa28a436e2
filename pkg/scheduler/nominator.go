package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"
)

// nominator holds the pods that are nominated to a node and not assumed there. Filter reserves room for them against
// other pods of at most their priority. It is safe for concurrent use.
type nominator struct {
	mu     sync.RWMutex
	byNode map[string][]framework.PodInfo
	nodeOf map[types.UID]string
	// changed has the nodes whose nominated pods changed, in order. first is the number of the changes before these.
	changed []string
	first   uint64
}

func newNominator() *nominator {
	return &nominator{byNode: map[string][]framework.PodInfo{}, nodeOf: map[types.UID]string{}}
}

// add nominates a pod to the node in info, or else to the one in the pod's status. It replaces the pod's earlier
// nomination.
func (n *nominator) add(pod framework.PodInfo, info *framework.NominatingInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeLocked(pod.GetPod().UID)
	node := pod.GetPod().Status.NominatedNodeName
	if info.Mode() == framework.ModeOverride {
		node = info.NominatedNodeName
	}
	if node != "" {
		n.nodeOf[pod.GetPod().UID] = node
		n.byNode[node] = append(n.byNode[node], pod)
		n.note(node)
	}
}

// update replaces a pod by a newer version. A nomination that the API does not have yet is kept.
func (n *nominator) update(old *corev1.Pod, pod framework.PodInfo) {
	var info *framework.NominatingInfo
	if old.Status.NominatedNodeName == "" && pod.GetPod().Status.NominatedNodeName == "" {
		if node := n.node(old.UID); node != "" {
			info = &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: node}
		}
	}
	n.add(pod, info)
}

// remove ends a pod's nomination and reports whether there was one.
func (n *nominator) remove(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removeLocked(uid)
}

func (n *nominator) removeLocked(uid types.UID) bool {
	node, ok := n.nodeOf[uid]
	if !ok {
		return false
	}
	delete(n.nodeOf, uid)
	n.byNode[node] = slices.DeleteFunc(n.byNode[node], func(p framework.PodInfo) bool { return p.GetPod().UID == uid })
	if len(n.byNode[node]) == 0 {
		delete(n.byNode, node)
	}
	n.note(node)
	return true
}

// note records a change of a node's nominated pods.
func (n *nominator) note(node string) {
	if len(n.changed) == journalLength {
		n.changed, n.first = nil, n.first+journalLength
	}
	n.changed = append(n.changed, node)
}

// changesSince returns the nodes whose nominated pods changed after a step, possibly with duplicates, and the current step. It returns false if
// the changes are no longer known.
func (n *nominator) changesSince(step uint64) (nodes []string, now uint64, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	now = n.first + uint64(len(n.changed))
	if step < n.first {
		return nil, now, false
	}
	return slices.Clone(n.changed[step-n.first:]), now, true
}

// step returns the number of changes so far.
func (n *nominator) step() uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.first + uint64(len(n.changed))
}

// node returns the node that a pod is nominated to, or "".
func (n *nominator) node(uid types.UID) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.nodeOf[uid]
}

// forNode returns the pods that are nominated to a node.
func (n *nominator) forNode(node string) []framework.PodInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(n.byNode[node])
}

// nodes returns the names of the nodes that pods are nominated to.
func (n *nominator) nodes() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if len(n.byNode) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(n.byNode))
}

func (n *nominator) empty() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.nodeOf) == 0
}

// runFilterWithNominated runs the Filter plugins on a node with the nominated pods of at least the pod's priority
// added, and, if they pass, also without them: the nominated pods may be bound elsewhere.
func (p *profile) runFilterWithNominated(ctx context.Context, t *tracker, plugins []extension[framework.FilterPlugin], state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	added, withState, withNode, failed := p.addNominated(ctx, t, state, pod, node)
	if failed != nil {
		return failed
	}
	if added {
		status := runFilter(ctx, t, plugins, withState, pod, withNode)
		if t.leave(); !status.IsSuccess() {
			return status
		}
	}
	status := runFilter(ctx, t, plugins, state, pod, node)
	t.leave()
	return status
}

// addNominated returns copies of the state and the node with the nominated pods added, if there are any.
func (p *profile) addNominated(ctx context.Context, t *tracker, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (bool, framework.CycleState, framework.NodeInfo, *framework.Status) {
	var nominated []framework.PodInfo
	for _, other := range p.nominator.forNode(node.Node().Name) {
		if other.GetPod().UID != pod.UID && helper.PodPriority(other.GetPod()) >= helper.PodPriority(pod) {
			nominated = append(nominated, other)
		}
	}
	if len(nominated) == 0 {
		return false, nil, nil, nil
	}
	state, node = state.Clone(), node.Snapshot()
	for _, other := range nominated {
		node.AddPodInfo(other)
		status := p.runExtensions(t, state, func(e framework.PreFilterExtensions) *framework.Status {
			return e.AddPod(ctx, state, pod, other, node)
		})
		if !status.IsSuccess() {
			return false, nil, nil, status
		}
	}
	return true, state, node, nil
}
