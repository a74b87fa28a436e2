package schedplugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// keptVictims holds which victims selectVictims found on the nodes. It is in the cycle's state, which the scheduler uses for all pods of the
// same signature and priority: for those the result is the same until the pods or the nominated pods of the node change.
type keptVictims struct {
	budgets []*policyv1.PodDisruptionBudget
	nodes   map[string]keptResult
	pods    int // in all results
}

// keptResult is a result of selectVictims, and what it depends on beside the pod and the budgets.
type keptResult struct {
	generation int64 // of the node
	lower      []lowerPod
	nominated  []*corev1.Pod
	found      candidate
	status     *framework.Status
}

// lowerPod is a pod of lower priority. Its start may change without a new generation of the node.
type lowerPod struct {
	info framework.PodInfo
	pod  *corev1.Pod
}

const keptVictimsState framework.StateKey = "DefaultPreemption"

// maxKeptPods bounds the pods in all results of a keptVictims.
const maxKeptPods = 1 << 15

// Clone implements framework.StateData. The copies of a state of the dry runs share it.
func (k *keptVictims) Clone() framework.StateData { return k }

// CycleOnly implements scheduler.CycleData.
func (*keptVictims) CycleOnly() {}

// keptIn returns what is kept in the state, nil if the results depend on more than the nodes.
func (p *defaultPreemption) keptIn(state framework.CycleState, budgets []*policyv1.PodDisruptionBudget) *keptVictims {
	if h, ok := p.handle.(scheduler.LocalHandle); !ok || !h.FiltersLocally(state) {
		return nil
	}
	if data, err := state.Read(keptVictimsState); err == nil {
		if k := data.(*keptVictims); sameBudgets(k.budgets, budgets) {
			return k
		}
	}
	k := &keptVictims{budgets: budgets, nodes: map[string]keptResult{}}
	state.Write(keptVictimsState, k)
	return k
}

// sameBudgets compares lists without an order.
func sameBudgets(a, b []*policyv1.PodDisruptionBudget) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x *policyv1.PodDisruptionBudget) bool { return !slices.Contains(b, x) })
}

// victimsOn returns the result of selectVictims for a node, from kept if it is known. kept may be nil.
func (p *defaultPreemption) victimsOn(ctx context.Context, kept *keptVictims, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo, budgets []*policyv1.PodDisruptionBudget) (candidate, *framework.Status) {
	if kept == nil {
		return p.selectVictims(ctx, state.Clone(), pod, node.Snapshot(), budgets)
	}
	name := node.Node().Name
	var nominated []*corev1.Pod
	for _, other := range p.handle.NominatedPodsForNode(name) {
		nominated = append(nominated, other.GetPod())
	}
	if t, ok := kept.nodes[name]; ok && t.current(node, nominated) {
		return t.found, t.status
	}
	t := keptResult{generation: node.GetGeneration(), nominated: nominated}
	for _, other := range node.GetPods() {
		if mayPreempt(pod, other) {
			t.lower = append(t.lower, lowerPod{other, other.GetPod()})
		}
	}
	t.found, t.status = p.selectVictims(ctx, state.Clone(), pod, node.Snapshot(), budgets)
	if !t.status.IsError() {
		kept.put(name, t)
	}
	return t.found, t.status
}

// current reports whether selectVictims would return the same.
func (t *keptResult) current(node framework.NodeInfo, nominated []*corev1.Pod) bool {
	return t.generation == node.GetGeneration() && slices.Equal(t.nominated, nominated) &&
		!slices.ContainsFunc(t.lower, func(l lowerPod) bool { return l.info.GetPod() != l.pod })
}

func (k *keptVictims) put(node string, t keptResult) {
	if k.pods += len(t.lower) - len(k.nodes[node].lower); k.pods > maxKeptPods {
		clear(k.nodes)
		k.pods = len(t.lower)
	}
	k.nodes[node] = t
}
