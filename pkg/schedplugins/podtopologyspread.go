package schedplugins

import (
	"context"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// podTopologySpread spreads the pods that a constraint selects evenly over the values of a topology key. A pod without constraints has the
// default ones (podtopologydefaults.go).
type podTopologySpread struct {
	cooperative
	handle        framework.Handle
	defaults      []corev1.TopologySpreadConstraint
	partial       bool                 // a node that lacks a default constraint's key is scored by the others
	selectors     *scheduler.Selectors // nil without defaults
	skewed, noKey *framework.Status
}

func (podTopologySpread) Name() string { return "PodTopologySpread" }

const (
	reasonSkew  = "node(s) didn't match pod topology spread constraints"
	reasonNoKey = reasonSkew + " (missing required label)"
)

// constraint is a parsed spread constraint.
type constraint struct {
	maxSkew, minDomains int
	key                 string
	selector            labels.Selector
	affinity, taints    bool // whether nodes that the pod's affinity, or their taints, exclude are left out
}

// counts reports whether the pods on a node count for the constraint.
func (c *constraint) counts(pod *corev1.Pod, node *corev1.Node, required nodeaffinity.RequiredNodeAffinity) bool {
	if c.affinity {
		if match, _ := required.Match(node); !match {
			return false
		}
	}
	if !c.taints {
		return true
	}
	_, found := helper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, forbids, comparisonTolerations)
	return !found
}

// matching counts the pods that the constraint selects among those of a node.
func (c *constraint) matching(pods []framework.PodInfo, namespace string) int {
	n := 0
	for _, p := range pods {
		if pod := p.GetPod(); c.isAbout(pod, namespace) {
			n++
		}
	}
	return n
}

func (c *constraint) isAbout(pod *corev1.Pod, namespace string) bool {
	return pod.DeletionTimestamp == nil && pod.Namespace == namespace && c.selector.Matches(labels.Set(pod.Labels))
}

func hasKeys(node *corev1.Node, constraints []constraint) bool {
	for _, c := range constraints {
		if _, ok := node.Labels[c.key]; !ok {
			return false
		}
	}
	return true
}

// spread counts, for each constraint, the selected pods by value of the topology key.
type spread struct {
	constraints []constraint
	rooms       []int // how many more pods than the lowest count a domain may have that gets the pod
	required    nodeaffinity.RequiredNodeAffinity
	counts      []spreadCounts
}

// spreadCounts are the counts of one constraint. They have an entry for each value whose nodes count.
type spreadCounts struct {
	pods    map[string]int
	domains map[int]int    // the number of values by count
	lowest  int            // count
	before  map[string]int // the counts that the update in progress has changed
}

func newSpreadCounts() spreadCounts {
	return spreadCounts{pods: map[string]int{}, domains: map[int]int{}, lowest: math.MaxInt32}
}

// add changes the count of a value.
func (c *spreadCounts) add(value string, by int) {
	n, ok := c.pods[value]
	if ok {
		c.domains[n]--
	}
	n += by
	c.pods[value] = n
	c.domains[n]++
	c.lowest = min(c.lowest, n)
	for c.domains[c.lowest] == 0 {
		delete(c.domains, c.lowest)
		c.lowest++
	}
}

// least returns the lowest count of a constraint. It is zero with fewer values than minDomains.
func (s *spread) least(i int) int {
	if len(s.counts[i].pods) < s.constraints[i].minDomains {
		return 0
	}
	return s.counts[i].lowest
}

// Clone implements framework.StateData.
func (s *spread) Clone() framework.StateData {
	c := &spread{constraints: s.constraints, rooms: s.rooms, required: s.required, counts: make([]spreadCounts, len(s.counts))}
	for i, of := range s.counts {
		c.counts[i] = spreadCounts{pods: maps.Clone(of.pods), domains: maps.Clone(of.domains), lowest: of.lowest}
	}
	return c
}

// CycleOnly implements scheduler.CycleData.
func (*spread) CycleOnly() {}

const spreadKey framework.StateKey = "PreFilterPodTopologySpread"

func (p podTopologySpread) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	constraints, err := p.constraintsOf(pod, corev1.DoNotSchedule)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(constraints) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &spread{constraints: constraints, required: nodeaffinity.GetRequiredNodeAffinity(pod), counts: make([]spreadCounts, len(constraints))}
	for i := range s.counts {
		s.counts[i], s.rooms = newSpreadCounts(), append(s.rooms, constraints[i].room(pod))
	}
	for _, info := range nodes {
		node := info.Node()
		if !hasKeys(node, constraints) {
			continue
		}
		for i := range constraints {
			if c := &constraints[i]; c.counts(pod, node, s.required) {
				s.counts[i].add(node.Labels[c.key], c.matching(info.GetPods(), pod.Namespace))
			}
		}
	}
	state.Write(spreadKey, s)
	return nil, nil
}

func (p podTopologySpread) PreFilterExtensions() framework.PreFilterExtensions { return p }

// AddPod and RemovePod implement framework.PreFilterExtensions.
func (p podTopologySpread) AddPod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, scheduler.PodChange{Pod: other, Node: node, By: 1})
}

func (p podTopologySpread) RemovePod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, scheduler.PodChange{Pod: other, Node: node, By: -1})
}

func (podTopologySpread) recount(state framework.CycleState, pod *corev1.Pod, change scheduler.PodChange) *framework.Status {
	v, err := state.Read(spreadKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	v.(*spread).apply(pod, change, func(int, string) {})
	return nil
}

// apply counts a change. It calls changing with the constraint and the value before it changes a count.
func (s *spread) apply(pod *corev1.Pod, change scheduler.PodChange, changing func(constraint int, value string)) {
	node := change.Node.Node()
	if !hasKeys(node, s.constraints) {
		return
	}
	for i := range s.constraints {
		c := &s.constraints[i]
		if c.isAbout(change.Pod.GetPod(), pod.Namespace) && c.counts(pod, node, s.required) {
			changing(i, node.Labels[c.key])
			s.counts[i].add(node.Labels[c.key], change.By)
		}
	}
}

// UpdateFilter implements scheduler.Incremental: the verdict on a domain changes with its count and with the lowest count.
func (podTopologySpread) UpdateFilter(state framework.CycleState, pod *corev1.Pod, changes []scheduler.PodChange, stale *scheduler.Stale) bool {
	v, err := state.Read(spreadKey)
	if err != nil {
		return true // no constraints
	}
	s := v.(*spread)
	least := make([]int, len(s.constraints))
	for i := range s.constraints {
		least[i] = s.least(i)
		clear(s.counts[i].before)
	}
	for _, ch := range changes {
		s.apply(pod, ch, s.keepCount)
	}
	for i := range s.constraints {
		s.addFlipped(i, least[i], stale)
	}
	return true
}

// keepCount keeps the count of a value before the update.
func (s *spread) keepCount(i int, value string) {
	c := &s.counts[i]
	if c.before == nil {
		c.before = map[string]int{}
	}
	if _, ok := c.before[value]; !ok {
		c.before[value] = c.pods[value]
	}
}

// addFlipped adds the domains of a constraint that have room now and had none before, or the reverse.
func (s *spread) addFlipped(i int, leastBefore int, stale *scheduler.Stale) {
	c, counts, least := &s.constraints[i], &s.counts[i], s.least(i)
	room := s.rooms[i]
	if least == leastBefore {
		for value, before := range counts.before {
			if (before-least > room) != (counts.pods[value]-least > room) {
				stale.Domain(c.key, value)
			}
		}
		return
	}
	for value, now := range counts.pods {
		before, ok := counts.before[value]
		if !ok {
			before = now
		}
		if (before-leastBefore > room) != (now-least > room) {
			stale.Domain(c.key, value)
		}
	}
}

// room returns how many more pods than the lowest count a domain may have that gets the pod.
func (c *constraint) room(pod *corev1.Pod) int {
	if c.selector.Matches(labels.Set(pod.Labels)) {
		return c.maxSkew - 1
	}
	return c.maxSkew
}

func (p podTopologySpread) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	v, err := state.Read(spreadKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	s := v.(*spread)
	for i := range s.constraints {
		c := &s.constraints[i]
		value, ok := info.Node().Labels[c.key]
		if !ok {
			return p.noKey
		}
		if s.counts[i].pods[value]-s.least(i) > s.rooms[i] {
			return p.skewed
		}
	}
	return nil
}

// SignPod signs the constraints, and what they depend on: the pod's namespace, whether they select the pod, and, with the
// policies that honor them, its node affinity and tolerations.
func (p podTopologySpread) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	type part struct {
		Key, Action, Selector string
		MaxSkew, MinDomains   int
		Self, Affinity, Taint bool
	}
	type whole struct {
		Namespace   string
		Parts       []part
		Partial     bool
		Selector    map[string]string
		Affinity    *corev1.NodeSelector
		Tolerations []corev1.Toleration
	}
	out := whole{Namespace: pod.Namespace, Partial: p.isPartial(pod), Selector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		out.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	for _, action := range []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		constraints, err := p.constraintsOf(pod, action)
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		for _, c := range constraints {
			out.Parts = append(out.Parts, part{c.key, string(action), c.selector.String(), c.maxSkew, c.minDomains, c.selector.Matches(labels.Set(pod.Labels)), c.affinity, c.taints})
		}
	}
	if len(out.Parts) == 0 {
		return nil, nil
	}
	return signature("minikctl.dev/topologySpread", out)
}

func (p podTopologySpread) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Add|framework.Delete|framework.UpdatePodLabel|framework.UpdatePodToleration, p.podHelps),
		on(framework.Node, framework.Add|framework.Delete|framework.UpdateNodeLabel|framework.UpdateNodeTaint, p.nodeHelps),
	}, nil
}

// podHelps reports whether a pod that was added, deleted or relabeled counts for one of the constraints, or whether the rejected pod has other
// labels, or tolerates other taints of nodes that then count.
func (p podTopologySpread) podHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	was, is := podOf(old), podOf(now)
	constraints, err := p.constraintsOf(pod, corev1.DoNotSchedule)
	if was != nil && is != nil && is.UID == pod.UID {
		tolerates := !equality.Semantic.DeepEqual(was.Spec.Tolerations, is.Spec.Tolerations)
		return queueIf(!maps.Equal(was.Labels, is.Labels) || tolerates && slices.ContainsFunc(constraints, func(c constraint) bool { return c.taints })), err
	}
	for i := range constraints {
		before := was != nil && constraints[i].isAbout(was, pod.Namespace)
		after := is != nil && constraints[i].isAbout(is, pod.Namespace)
		if before != after {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, err
}

// nodeHelps reports whether a node that was added, deleted or changed has all the topology keys, before or after.
func (p podTopologySpread) nodeHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	constraints, err := p.constraintsOf(pod, corev1.DoNotSchedule)
	was, is := nodeOf(old), nodeOf(now)
	return queueIf(was != nil && hasKeys(was, constraints) || is != nil && hasKeys(is, constraints)), err
}
