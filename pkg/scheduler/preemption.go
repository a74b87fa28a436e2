package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// PreemptionState is the key of a *Preemption in the cycle's state.
const PreemptionState framework.StateKey = "minikctl.dev/preemption"

// Preemption is what a PostFilter plugin does to make room for the pod. The plugin writes it into the cycle's state under
// PreemptionState; decisions and simulations show it.
type Preemption struct {
	Node       string
	Victims    []*corev1.Pod
	Violations int // how many of them are evicted in spite of a PodDisruptionBudget
}

// Clone implements framework.StateData.
func (p *Preemption) Clone() framework.StateData { return p }

// preemptionIn returns the preemption that a PostFilter plugin left in the state, nil if there is none.
func preemptionIn(state framework.CycleState) *Preemption {
	data, err := state.Read(PreemptionState)
	if err != nil {
		return nil
	}
	p, _ := data.(*Preemption)
	return p
}

// reported returns the preemption as a decision shows it.
func (p *Preemption) reported() *minikctl.Preemption {
	if p == nil {
		return nil
	}
	out := &minikctl.Preemption{Node: p.Node, Violations: p.Violations}
	for _, v := range p.Victims {
		out.Victims = append(out.Victims, podName(v))
	}
	return out
}

// cachedBudgets returns a function that lists the PodDisruptionBudgets of the API.
func cachedBudgets(caches *client.Caches) func() []*policyv1.PodDisruptionBudget {
	cache := client.CacheOf[*policyv1.PodDisruptionBudget](caches, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
	return func() []*policyv1.PodDisruptionBudget { return cache.List("", nil) }
}
