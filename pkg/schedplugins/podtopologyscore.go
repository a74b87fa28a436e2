package schedplugins

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"
)

// softSpread is the state that Score needs of the ScheduleAnyway constraints.
type softSpread struct {
	constraints []constraint
	pods        []map[string]int // by value of the key, for keys other than the host name
	weights     []float64        // grow with the number of values, since the count for each value shrinks
	keyless     map[string]bool  // nodes without all keys
}

// Clone implements framework.StateData; the value never changes.
func (s *softSpread) Clone() framework.StateData { return s }

const softSpreadKey framework.StateKey = "PreScorePodTopologySpread"

func (p podTopologySpread) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, feasible []framework.NodeInfo) *framework.Status {
	constraints, err := constraintsOf(pod, corev1.ScheduleAnyway)
	if err != nil {
		return framework.AsStatus(err)
	}
	if len(constraints) == 0 || len(feasible) == 0 {
		return framework.NewStatus(framework.Skip)
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return framework.AsStatus(err)
	}
	s := &softSpread{constraints: constraints, pods: make([]map[string]int, len(constraints)), keyless: map[string]bool{}}
	s.findValues(feasible)
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, info := range nodes {
		if hasKeys(info.Node(), constraints) {
			s.count(pod, info, required)
		}
	}
	state.Write(softSpreadKey, s)
	return nil
}

// findValues collects the values of the topology keys on the nodes that passed Filter.
func (s *softSpread) findValues(feasible []framework.NodeInfo) {
	for i := range s.pods {
		s.pods[i] = map[string]int{}
	}
	for _, info := range feasible {
		node := info.Node()
		if !hasKeys(node, s.constraints) {
			s.keyless[node.Name] = true
			continue
		}
		for i, c := range s.constraints {
			if c.key != corev1.LabelHostname {
				s.pods[i][node.Labels[c.key]] = 0
			}
		}
	}
	for i, c := range s.constraints {
		values := len(s.pods[i])
		if c.key == corev1.LabelHostname {
			values = len(feasible) - len(s.keyless)
		}
		s.weights = append(s.weights, math.Log(float64(values+2)))
	}
}

func (s *softSpread) count(pod *corev1.Pod, info framework.NodeInfo, required nodeaffinity.RequiredNodeAffinity) {
	for i := range s.constraints {
		c := &s.constraints[i]
		value := info.Node().Labels[c.key]
		if _, ok := s.pods[i][value]; ok && c.counts(pod, info.Node(), required) {
			s.pods[i][value] += c.matching(info.GetPods(), pod.Namespace)
		}
	}
}

// Score returns the weighted number of matching pods in the node's domains: lower is better.
func (podTopologySpread) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(softSpreadKey)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	s, node := v.(*softSpread), info.Node()
	if s.keyless[node.Name] {
		return 0, nil
	}
	var sum float64
	for i := range s.constraints {
		c := &s.constraints[i]
		n := s.pods[i][node.Labels[c.key]]
		if c.key == corev1.LabelHostname {
			n = c.matching(info.GetPods(), pod.Namespace)
		}
		sum += float64(n)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(sum)), nil
}

func (p podTopologySpread) ScoreExtensions() framework.ScoreExtensions { return p }

// NormalizeScore inverts the raw scores, so that fewer pods give a higher score. Nodes without the keys get zero.
func (podTopologySpread) NormalizeScore(_ context.Context, state framework.CycleState, _ *corev1.Pod, scores framework.NodeScoreList) *framework.Status {
	v, err := state.Read(softSpreadKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	s := v.(*softSpread)
	least, most := int64(math.MaxInt64), int64(0)
	for _, n := range scores {
		if !s.keyless[n.Name] {
			least, most = min(least, n.Score), max(most, n.Score)
		}
	}
	for i := range scores {
		switch {
		case s.keyless[scores[i].Name]:
			scores[i].Score = 0
		case most == 0:
			scores[i].Score = framework.MaxScore
		default:
			scores[i].Score = framework.MaxScore * (most + least - scores[i].Score) / most
		}
	}
	return nil
}
