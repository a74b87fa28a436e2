package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// dynamicResources rejects pods with resource claims, which this scheduler does not allocate. It scores all nodes alike.
type dynamicResources struct {
	cooperative
	local
}

func defaultDynamicResources() configv1.DynamicResourcesArgs {
	return configv1.DynamicResourcesArgs{
		FilterTimeout:  &metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault},
		BindingTimeout: &metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault},
	}
}

func newDynamicResources(configv1.DynamicResourcesArgs, framework.Handle) (framework.Plugin, error) {
	return dynamicResources{}, nil
}

func (dynamicResources) Name() string { return "DynamicResources" }

const dynamicResourcesState framework.StateKey = "DynamicResources"

// preFiltered is the state of a pod whose PreFilter was called.
type preFiltered struct{}

func (s preFiltered) Clone() framework.StateData { return s }

func (dynamicResources) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	state.Write(dynamicResourcesState, preFiltered{})
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "pod has resource claims, and this cluster cannot allocate any")
}

func (dynamicResources) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// PostFilter ends the PostFilter plugins with Kubernetes' text if another plugin's PreFilter has rejected the pod before this one's.
func (dynamicResources) PostFilter(_ context.Context, state framework.CycleState, _ *corev1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if _, err := state.Read(dynamicResourcesState); err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	return nil, framework.NewStatus(framework.Unschedulable, "no new claims to deallocate")
}

func (dynamicResources) Score(context.Context, framework.CycleState, *corev1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 0, nil
}

func (dynamicResources) ScoreExtensions() framework.ScoreExtensions { return nil }

func (dynamicResources) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with resource claims are not signed")
	}
	return signature(framework.DynamicResourcesSignerName, nil)
}

// EventsToRegister is empty: no event makes a claim allocatable.
func (dynamicResources) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return nil, nil
}
