package schedplugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// nodeAffinity filters nodes by the pod's nodeSelector and required node affinity, and scores them by its preferred
// terms. The configuration may add affinity for all pods.
type nodeAffinity struct {
	cooperative
	local
	added          *nodeaffinity.NodeSelector
	addedPreferred *nodeaffinity.PreferredSchedulingTerms
}

func defaultNodeAffinity() configv1.NodeAffinityArgs { return configv1.NodeAffinityArgs{} }

func newNodeAffinity(args configv1.NodeAffinityArgs, _ framework.Handle) (framework.Plugin, error) {
	p := &nodeAffinity{}
	a := args.AddedAffinity
	if a == nil {
		return p, nil
	}
	var err error
	if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if p.added, err = nodeaffinity.NewNodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	if len(a.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		if p.addedPreferred, err = nodeaffinity.NewPreferredSchedulingTerms(a.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return nil, fmt.Errorf("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	return p, nil
}

func (*nodeAffinity) Name() string { return "NodeAffinity" }

const (
	reasonPod   = "node(s) didn't match Pod's node affinity/selector"
	reasonAdded = "node(s) didn't match scheduler-enforced node affinity"
)

// required is the pod's parsed required node affinity.
type required struct {
	nodeaffinity.RequiredNodeAffinity
}

// Clone implements framework.StateData; the value never changes.
func (r required) Clone() framework.StateData { return r }

// preferred holds the pod's parsed preferred terms; nil without any.
type preferred struct {
	*nodeaffinity.PreferredSchedulingTerms
}

func (p preferred) Clone() framework.StateData { return p }

const (
	requiredKey  framework.StateKey = "PreFilterNodeAffinity"
	preferredKey framework.StateKey = "PreScoreNodeAffinity"
)

func (p *nodeAffinity) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	affinity := pod.Spec.Affinity
	none := affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil
	if p.added == nil && none && len(pod.Spec.NodeSelector) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(requiredKey, required{nodeaffinity.GetRequiredNodeAffinity(pod)})
	if none {
		return nil, nil
	}
	return onlyNamed(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
}

// onlyNamed returns the nodes that the terms name, if every term has a node name, as in pods of a DaemonSet.
func onlyNamed(terms []corev1.NodeSelectorTerm) (*framework.PreFilterResult, *framework.Status) {
	var all sets.Set[string]
	for _, t := range terms {
		var names sets.Set[string]
		for _, f := range t.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn {
				if in := sets.New(f.Values...); names == nil {
					names = in
				} else {
					names = names.Intersection(in)
				}
			}
		}
		if names == nil {
			return nil, nil // this term may match any node, and one matching term is enough
		}
		all = all.Union(names)
	}
	if all != nil && all.Len() == 0 {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "pod affinity terms conflict")
	}
	return &framework.PreFilterResult{NodeNames: all}, nil
}

func (*nodeAffinity) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func (p *nodeAffinity) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	node := info.Node()
	if p.added != nil && !p.added.Match(node) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonAdded)
	}
	want, ok := required{}, false
	if s, err := state.Read(requiredKey); err == nil {
		want, ok = s.(required)
	}
	if !ok {
		want = required{nodeaffinity.GetRequiredNodeAffinity(pod)}
	}
	if match, _ := want.Match(node); !match { // a term that cannot be parsed matches nothing
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonPod)
	}
	return nil
}

func preferredOf(pod *corev1.Pod) (preferred, error) {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return preferred{}, nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	return preferred{terms}, err
}

func (p *nodeAffinity) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	terms, err := preferredOf(pod)
	if err != nil {
		return framework.AsStatus(err)
	}
	if terms.PreferredSchedulingTerms == nil && p.addedPreferred == nil {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(preferredKey, terms)
	return nil
}

func (p *nodeAffinity) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	var n int64
	if p.addedPreferred != nil {
		n += p.addedPreferred.Score(info.Node())
	}
	terms := preferred{}
	if s, err := state.Read(preferredKey); err == nil {
		terms = s.(preferred)
	} else if terms, err = preferredOf(pod); err != nil {
		return 0, framework.AsStatus(err)
	}
	if terms.PreferredSchedulingTerms != nil {
		n += terms.Score(info.Node())
	}
	return n, nil
}

func (p *nodeAffinity) ScoreExtensions() framework.ScoreExtensions { return p }

func (*nodeAffinity) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	normalise(scores, false)
	return nil
}

func (*nodeAffinity) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	affinity, err := framework.NodeAffinitySigner(pod)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	return []framework.SignFragment{
		{Key: framework.NodeAffinitySignerName, Value: affinity},
		{Key: framework.NodeSelectorSignerName, Value: pod.Spec.NodeSelector},
	}, nil
}

func (p *nodeAffinity) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	matches := func(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
		n, was := nodeOf(now), nodeOf(old)
		return queueIf(n != nil && p.takes(pod, n) && (was == nil || !p.takes(pod, was))), nil
	}
	return []framework.ClusterEventWithHint{on(framework.Node, framework.Add|framework.UpdateNodeLabel, matches)}, nil
}

func (p *nodeAffinity) takes(pod *corev1.Pod, node *corev1.Node) bool {
	if p.added != nil && !p.added.Match(node) {
		return false
	}
	match, _ := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return match
}
