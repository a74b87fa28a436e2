package schedplugins

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"
)

// topologyScore sums the weights of the matching preferred terms by topology key and value.
type topologyScore map[string]map[string]int64

// Clone implements framework.StateData; the value never changes.
func (l topologyScore) Clone() framework.StateData { return l }

const preScoreKey framework.StateKey = "PreScoreInterPodAffinity"

func (p *interPodAffinity) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, feasible []framework.NodeInfo) *framework.Status {
	affinity, anti, err := p.preferredTerms(pod)
	if err != nil {
		return framework.AsStatus(err)
	}
	own := len(affinity)+len(anti) > 0
	if len(feasible) == 0 || p.ignoreExisting && !own {
		return framework.NewStatus(framework.Skip)
	}
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	nodes, err := lister.HavePodsWithAffinityList()
	if own {
		nodes, err = lister.List()
	}
	if err != nil {
		return framework.AsStatus(err)
	}
	sum := topologyScore{}
	ns := p.namespaces.NamespaceLabels(pod.Namespace)
	for _, node := range nodes {
		pods := node.GetPodsWithAffinity()
		if own {
			pods = node.GetPods()
		}
		for _, other := range pods {
			sum.add(affinity, other.GetPod(), nil, node.Node(), 1)
			sum.add(anti, other.GetPod(), nil, node.Node(), -1)
			p.addExistingPodTerms(sum, pod, ns, other, node.Node())
		}
	}
	if len(sum) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	state.Write(preScoreKey, sum)
	return nil
}

func (p *interPodAffinity) preferredTerms(pod *corev1.Pod) (affinity, anti []framework.WeightedAffinityTerm, err error) {
	a := pod.Spec.Affinity
	if a == nil {
		return nil, nil, nil
	}
	if a.PodAffinity != nil {
		if affinity, err = framework.GetWeightedAffinityTerms(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return nil, nil, err
		}
	}
	if a.PodAntiAffinity != nil {
		if anti, err = framework.GetWeightedAffinityTerms(pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return nil, nil, err
		}
	}
	for i := range affinity {
		p.resolveNamespaces(&affinity[i].AffinityTerm)
	}
	for i := range anti {
		p.resolveNamespaces(&anti[i].AffinityTerm)
	}
	return affinity, anti, nil
}

// addExistingPodTerms adds the terms of another pod that match the pod. Required affinity counts with a small weight.
func (p *interPodAffinity) addExistingPodTerms(sum topologyScore, pod *corev1.Pod, ns labels.Set, other framework.PodInfo, node *corev1.Node) {
	if p.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			sum.addTerm(&terms[i], int64(p.hardWeight), pod, ns, node)
		}
	}
	if p.ignoreExisting {
		return
	}
	sum.add(other.GetPreferredAffinityTerms(), pod, ns, node, 1)
	sum.add(other.GetPreferredAntiAffinityTerms(), pod, ns, node, -1)
}

// add adds the weights of the terms that match a pod, for the domains of node.
func (l topologyScore) add(terms []framework.WeightedAffinityTerm, pod *corev1.Pod, ns labels.Set, node *corev1.Node, sign int64) {
	for i := range terms {
		l.addTerm(&terms[i].AffinityTerm, sign*int64(terms[i].Weight), pod, ns, node)
	}
}

func (l topologyScore) addTerm(t *framework.AffinityTerm, weight int64, pod *corev1.Pod, ns labels.Set, node *corev1.Node) {
	if value, ok := node.Labels[t.TopologyKey]; ok && t.Matches(pod, ns) {
		if l[t.TopologyKey] == nil {
			l[t.TopologyKey] = map[string]int64{}
		}
		l[t.TopologyKey][value] += weight
	}
}

func (p *interPodAffinity) Score(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	s, err := state.Read(preScoreKey)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	var sum int64
	node := info.Node()
	for key, values := range s.(topologyScore) {
		if value, ok := node.Labels[key]; ok {
			sum += values[value]
		}
	}
	return sum, nil
}

func (p *interPodAffinity) ScoreExtensions() framework.ScoreExtensions { return p }

// NormalizeScore scales the sums to the whole range of scores.
func (*interPodAffinity) NormalizeScore(_ context.Context, _ framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range scores {
		least, most = min(least, s.Score), max(most, s.Score)
	}
	for i := range scores {
		if most == least {
			scores[i].Score = 0
			continue
		}
		scores[i].Score = int64(float64(framework.MaxScore) * (float64(scores[i].Score-least) / float64(most-least)))
	}
	return nil
}
