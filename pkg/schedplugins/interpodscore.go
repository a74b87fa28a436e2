package schedplugins

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// affinityScore is the state that Score needs: the sums of the weights of the matching terms by topology key and value.
type affinityScore struct {
	affinity, anti []framework.WeightedAffinityTerm // the pod's preferred terms; their namespace selectors are resolved
	labels         labels.Set                       // of the pod's namespace
	sums           map[string]map[string]int64
	matches        int // the number of terms that sums has. Without any the plugin skips the pod.
}

// Clone implements framework.StateData; binding cycles and nested cycles do not change the value.
func (l *affinityScore) Clone() framework.StateData { return l }

// CycleOnly implements scheduler.CycleData.
func (*affinityScore) CycleOnly() {}

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
	l := &affinityScore{affinity: affinity, anti: anti, labels: p.namespaces.NamespaceLabels(pod.Namespace), sums: map[string]map[string]int64{}}
	state.Write(preScoreKey, l)
	for _, node := range nodes {
		pods := node.GetPodsWithAffinity()
		if own {
			pods = node.GetPods()
		}
		for _, other := range pods {
			p.addPod(l, pod, scheduler.PodChange{Pod: other, Node: node, By: 1}, nil)
		}
	}
	if l.matches == 0 {
		return framework.NewStatus(framework.Skip)
	}
	return nil
}

// addPod adds the weights of the pod's terms that the other pod matches, and of the other pod's terms that match the pod.
func (p *interPodAffinity) addPod(l *affinityScore, pod *corev1.Pod, change scheduler.PodChange, stale *scheduler.Stale) {
	l.add(l.affinity, change.Pod.GetPod(), nil, change, 1, stale)
	l.add(l.anti, change.Pod.GetPod(), nil, change, -1, stale)
	p.addExistingPodTerms(l, pod, change, stale)
}

// UpdateScore implements scheduler.Incremental: the scores of a domain change with its sum.
func (p *interPodAffinity) UpdateScore(state framework.CycleState, pod *corev1.Pod, changes []scheduler.PodChange, _, _ []framework.NodeInfo, stale *scheduler.Stale) bool {
	v, err := state.Read(preScoreKey)
	if err != nil {
		return true // only existing pods have terms, which are ignored
	}
	l := v.(*affinityScore)
	skipped := l.matches == 0
	for _, ch := range changes {
		p.addPod(l, pod, ch, stale)
	}
	return skipped == (l.matches == 0)
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
func (p *interPodAffinity) addExistingPodTerms(l *affinityScore, pod *corev1.Pod, change scheduler.PodChange, stale *scheduler.Stale) {
	if p.hardWeight > 0 {
		terms := change.Pod.GetRequiredAffinityTerms()
		for i := range terms {
			l.addTerm(&terms[i], int64(p.hardWeight), pod, l.labels, change, stale)
		}
	}
	if p.ignoreExisting {
		return
	}
	l.add(change.Pod.GetPreferredAffinityTerms(), pod, l.labels, change, 1, stale)
	l.add(change.Pod.GetPreferredAntiAffinityTerms(), pod, l.labels, change, -1, stale)
}

// add adds the weights of the terms that match a pod, for the domains of the changed node.
func (l *affinityScore) add(terms []framework.WeightedAffinityTerm, pod *corev1.Pod, ns labels.Set, change scheduler.PodChange, sign int64, stale *scheduler.Stale) {
	for i := range terms {
		l.addTerm(&terms[i].AffinityTerm, sign*int64(terms[i].Weight), pod, ns, change, stale)
	}
}

func (l *affinityScore) addTerm(t *framework.AffinityTerm, weight int64, pod *corev1.Pod, ns labels.Set, change scheduler.PodChange, stale *scheduler.Stale) {
	value, ok := change.Node.Node().Labels[t.TopologyKey]
	if !ok || !t.Matches(pod, ns) {
		return
	}
	if l.sums[t.TopologyKey] == nil {
		l.sums[t.TopologyKey] = map[string]int64{}
	}
	l.sums[t.TopologyKey][value] += weight * int64(change.By)
	l.matches += change.By
	if stale != nil {
		stale.Domain(t.TopologyKey, value)
	}
}

func (p *interPodAffinity) Score(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	s, err := state.Read(preScoreKey)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	var sum int64
	node := info.Node()
	for key, values := range s.(*affinityScore).sums {
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
