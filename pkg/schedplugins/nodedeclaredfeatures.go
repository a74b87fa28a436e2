package schedplugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// nodeDeclaredFeatures filters out nodes that do not declare, in status.declaredFeatures, every feature that the pod's
// spec requires.
type nodeDeclaredFeatures struct {
	cooperative
	local
}

func newNodeDeclaredFeatures(framework.Handle) framework.Plugin { return nodeDeclaredFeatures{} }

func (nodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatures" }

// kubernetesVersion is the version of the required features.
var kubernetesVersion = version.MajorMinor(1, 36)

// requiredFeatures returns the features that a pod's spec requires of its node.
func requiredFeatures(pod *corev1.Pod) (ndf.FeatureSet, error) {
	return ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, kubernetesVersion)
}

// featureSet holds the required features from PreFilter to Filter.
type featureSet struct{ ndf.FeatureSet }

// Clone implements framework.StateData. The set is never written to.
func (s featureSet) Clone() framework.StateData { return s }

const featuresKey framework.StateKey = "PreFilterNodeDeclaredFeatures"

func (nodeDeclaredFeatures) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	required, err := requiredFeatures(pod)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if required.IsEmpty() {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(featuresKey, featureSet{required})
	return nil, nil
}

func (nodeDeclaredFeatures) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (nodeDeclaredFeatures) Filter(_ context.Context, state framework.CycleState, _ *corev1.Pod, node framework.NodeInfo) *framework.Status {
	required, err := state.Read(featuresKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	declared, err := required.(featureSet).IsSubset(node.GetNodeDeclaredFeatures())
	if err != nil {
		return framework.AsStatus(err)
	}
	if !declared {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, "node(s) didn't match Pod's required features")
	}
	return nil
}

func (nodeDeclaredFeatures) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	required, err := requiredFeatures(pod)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if required.IsEmpty() {
		return signature(framework.FeaturesSignerName, nil)
	}
	return signature(framework.FeaturesSignerName, required.String())
}

func (nodeDeclaredFeatures) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	declared := func(_ klog.Logger, _ *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		was, n := nodeOf(old), nodeOf(now)
		return queueIf(n != nil && (was == nil || !slices.Equal(was.Status.DeclaredFeatures, n.Status.DeclaredFeatures))), nil
	}
	requirements := func(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		was, p := podOf(old), podOf(now)
		if was == nil || p == nil || p.UID != pod.UID {
			return framework.QueueSkip, nil
		}
		before, err := requiredFeatures(was)
		if err != nil {
			return framework.Queue, err
		}
		after, err := requiredFeatures(p)
		return queueIf(!after.Equal(before)), err
	}
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeDeclaredFeature, declared),
		on(framework.Pod, framework.Update, requirements),
	}, nil
}
