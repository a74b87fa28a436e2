package schedplugins

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// softSpread is the state that Score needs of the ScheduleAnyway constraints.
type softSpread struct {
	constraints []constraint
	required    nodeaffinity.RequiredNodeAffinity
	domains     []map[string]*softDomain // by value of the key, for keys other than the host name
	nodes       map[string][]*softDomain // of the nodes that are scored: the domain of each constraint, nil where the node lacks the key
	feasible    []int                    // the number of values of nodes that pass Filter
	weights     []float64                // grow with feasible, since the count for each value shrinks
	keyed       int                      // the number of nodes that pass Filter and are scored
	partial     bool                     // nodes that lack a key are scored by the others
	keyless     map[string]bool          // nodes that are not scored, as they lack a key
}

// softDomain counts the selected pods and the nodes that pass Filter in a domain. Each node is a domain of the host name.
type softDomain struct{ pods, feasible int }

// Clone implements framework.StateData; binding cycles and nested cycles do not change the value.
func (s *softSpread) Clone() framework.StateData { return s }

// CycleOnly implements scheduler.CycleData.
func (*softSpread) CycleOnly() {}

const softSpreadKey framework.StateKey = "PreScorePodTopologySpread"

func (p podTopologySpread) PreScore(_ context.Context, state framework.CycleState, pod *corev1.Pod, feasible []framework.NodeInfo) *framework.Status {
	constraints, err := p.constraintsOf(pod, corev1.ScheduleAnyway)
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
	n := len(constraints)
	s := &softSpread{constraints: constraints, required: nodeaffinity.GetRequiredNodeAffinity(pod), domains: make([]map[string]*softDomain, n),
		nodes: make(map[string][]*softDomain, len(nodes)), feasible: make([]int, n), weights: make([]float64, n), partial: p.isPartial(pod), keyless: map[string]bool{}}
	for i := range s.domains {
		s.domains[i] = map[string]*softDomain{}
	}
	for _, info := range feasible {
		s.countFeasible(info.Node(), 1)
	}
	s.weigh()
	for _, info := range nodes {
		s.add(pod, info)
	}
	state.Write(softSpreadKey, s)
	return nil
}

// scores reports whether a node is scored.
func (s *softSpread) scores(node *corev1.Node) bool { return s.partial || hasKeys(node, s.constraints) }

// domain returns the domain of a value, which the first call creates.
func (s *softSpread) domain(i int, value string) *softDomain {
	d, ok := s.domains[i][value]
	if !ok {
		d = &softDomain{}
		s.domains[i][value] = d
	}
	return d
}

// countFeasible counts a node that passes Filter, or no longer does: by is 1 or -1.
func (s *softSpread) countFeasible(node *corev1.Node, by int) {
	if !s.scores(node) {
		return
	}
	s.keyed += by
	for i, c := range s.constraints {
		if c.key == corev1.LabelHostname {
			continue
		}
		d := s.domain(i, node.Labels[c.key])
		d.feasible += by
		if by > 0 && d.feasible == 1 || by < 0 && d.feasible == 0 {
			s.feasible[i] += by
		}
	}
}

// weigh computes the weights, and reports whether one has changed.
func (s *softSpread) weigh() bool {
	changed := false
	for i, c := range s.constraints {
		values := s.feasible[i]
		if c.key == corev1.LabelHostname {
			values = s.keyed
		}
		w := math.Log(float64(values + 2))
		changed = changed || w != s.weights[i]
		s.weights[i] = w
	}
	return changed
}

// add adds a node with its pods.
func (s *softSpread) add(pod *corev1.Pod, info framework.NodeInfo) {
	node := info.Node()
	if !s.scores(node) {
		s.keyless[node.Name] = true
		return
	}
	own := make([]*softDomain, len(s.constraints))
	for i := range s.constraints {
		c := &s.constraints[i]
		value, ok := node.Labels[c.key]
		switch {
		case !ok:
			continue
		case c.key == corev1.LabelHostname:
			own[i] = &softDomain{}
		default:
			own[i] = s.domain(i, value)
		}
		if c.countsSoftly(pod, node, s.required) {
			own[i].pods += c.matching(info.GetPods(), pod.Namespace)
		}
	}
	s.nodes[node.Name] = own
}

// countsSoftly is counts for scores: a node's own pods always count for the node.
func (c *constraint) countsSoftly(pod *corev1.Pod, node *corev1.Node, required nodeaffinity.RequiredNodeAffinity) bool {
	return c.key == corev1.LabelHostname || c.counts(pod, node, required)
}

// UpdateScore implements scheduler.Incremental: all scores change with a weight, and those of a domain with its pods.
func (podTopologySpread) UpdateScore(state framework.CycleState, pod *corev1.Pod, changes []scheduler.PodChange, joined, left []framework.NodeInfo, stale *scheduler.Stale) bool {
	v, err := state.Read(softSpreadKey)
	if err != nil {
		return true // no constraints
	}
	s := v.(*softSpread)
	for _, info := range joined {
		s.countFeasible(info.Node(), 1)
	}
	for _, info := range left {
		s.countFeasible(info.Node(), -1)
	}
	if s.weigh() {
		stale.All()
	}
	for _, ch := range changes {
		node := ch.Node.Node()
		for i, d := range s.nodes[node.Name] {
			c := &s.constraints[i]
			if d == nil || !c.isAbout(ch.Pod.GetPod(), pod.Namespace) || !c.countsSoftly(pod, node, s.required) {
				continue
			}
			d.pods += ch.By
			if c.key != corev1.LabelHostname { // the node itself is scored again anyway
				stale.Domain(c.key, node.Labels[c.key])
			}
		}
	}
	return true
}

// Score returns the weighted number of matching pods in the node's domains: lower is better.
func (podTopologySpread) Score(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) (int64, *framework.Status) {
	v, err := state.Read(softSpreadKey)
	if err != nil {
		return 0, framework.AsStatus(err)
	}
	s := v.(*softSpread)
	var sum float64
	for i, d := range s.nodes[info.Node().Name] {
		if d != nil {
			sum += float64(d.pods)*s.weights[i] + float64(s.constraints[i].maxSkew-1)
		}
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
