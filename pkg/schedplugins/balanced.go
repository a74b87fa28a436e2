package schedplugins

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// balanced prefers nodes on which the pod makes the utilization of the resources more even.
type balanced struct {
	cooperative
	local
	resources []measured
}

func defaultBalanced() configv1.NodeResourcesBalancedAllocationArgs {
	return configv1.NodeResourcesBalancedAllocationArgs{}
}

func newBalanced(args configv1.NodeResourcesBalancedAllocationArgs, _ framework.Handle) (framework.Plugin, error) {
	for i, r := range args.Resources {
		if r.Weight > 1 {
			return nil, field.Invalid(field.NewPath("resources").Index(i).Child("weight"), r.Weight, fmt.Sprintf("resource weight of %s not in valid range [1, 1]", r.Name))
		}
	}
	resources, errs := measure(field.NewPath("resources"), args.Resources)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return balanced{resources: resources}, nil
}

func (balanced) Name() string { return "NodeResourcesBalancedAllocation" }

const balancedKey framework.StateKey = "PreScoreNodeResourcesBalancedAllocation"

// PreScore skips pods without requests: they do not change the balance, and would all go to one node.
func (p balanced) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) *framework.Status {
	a := requestOf(pod, p.resources, false)
	for _, n := range a {
		if n > 0 {
			state.Write(balancedKey, a)
			return nil
		}
	}
	return framework.NewStatus(framework.Skip)
}

func (p balanced) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) (int64, *framework.Status) {
	var a podRequest
	if s, err := state.Read(balancedKey); err == nil {
		a = s.(podRequest)
	} else {
		a = requestOf(pod, p.resources, false)
	}
	var b1, b2 [4]usage
	with, without := usageOn(node, a, p.resources, false, b1[:], b2[:])
	// The score is half of the maximum when the pod makes the utilization as uneven as possible, and the maximum when it
	// makes it as even as possible.
	const middle = framework.MaxScore + framework.MaxScore/2
	return (middle + evenness(with) - evenness(without)) / 2, nil
}

// evenness is the maximum score, reduced by the standard deviation of the resources' utilization.
func evenness(resources []usage) int64 {
	n := float64(len(resources))
	if n < 2 {
		return framework.MaxScore
	}
	part := func(u usage) float64 { return min(float64(u.requested)/float64(u.allocatable), 1) }
	var deviation float64
	if len(resources) == 2 {
		deviation = math.Abs(part(resources[0])-part(resources[1])) / 2
	} else {
		var sum, squares float64
		for _, u := range resources {
			sum += part(u)
		}
		for _, u := range resources {
			d := part(u) - sum/n
			squares += d * d
		}
		deviation = math.Sqrt(squares / n)
	}
	return int64((1 - deviation) * float64(framework.MaxScore))
}

func (balanced) ScoreExtensions() framework.ScoreExtensions { return nil }

func (balanced) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return requestsSignature(pod)
}
