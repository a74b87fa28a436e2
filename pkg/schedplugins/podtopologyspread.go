package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// podTopologySpread spreads the pods that a constraint selects evenly over the values of a topology key. It has no
// default constraints: a pod without constraints is not spread by Service or owner.
type podTopologySpread struct {
	cooperative
	handle framework.Handle
}

func defaultSpread() configv1.PodTopologySpreadArgs {
	return configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}
}

func newPodTopologySpread(args configv1.PodTopologySpreadArgs, h framework.Handle) (framework.Plugin, error) {
	switch {
	case args.DefaultingType != configv1.SystemDefaulting && args.DefaultingType != configv1.ListDefaulting:
		return nil, fmt.Errorf("args: defaultingType: Unsupported value: %q: supported values: %q, %q", args.DefaultingType, configv1.ListDefaulting, configv1.SystemDefaulting)
	case len(args.DefaultConstraints) > 0:
		return nil, errors.New("args: defaultConstraints: this scheduler spreads only pods that have constraints of their own")
	}
	return podTopologySpread{handle: h}, nil
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

func constraintsOf(pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		for _, key := range c.MatchLabelKeys {
			if value, ok := pod.Labels[key]; ok {
				r, err := labels.NewRequirement(key, "=", []string{value})
				if err != nil {
					return nil, err
				}
				selector = selector.Add(*r)
			}
		}
		parsed := constraint{maxSkew: int(c.MaxSkew), minDomains: 1, key: c.TopologyKey, selector: selector, affinity: true}
		if c.MinDomains != nil {
			parsed.minDomains = int(*c.MinDomains)
		}
		if c.NodeAffinityPolicy != nil {
			parsed.affinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if c.NodeTaintsPolicy != nil {
			parsed.taints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		out = append(out, parsed)
	}
	return out, nil
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
	pods        []map[string]int
	least       []int // the lowest count of each constraint; computed again after preemption changes the copy
}

// Clone implements framework.StateData.
func (s *spread) Clone() framework.StateData {
	c := &spread{constraints: s.constraints, pods: make([]map[string]int, len(s.pods)), least: make([]int, len(s.least))}
	for i := range s.pods {
		c.pods[i] = maps.Clone(s.pods[i])
	}
	copy(c.least, s.least)
	return c
}

const spreadKey framework.StateKey = "PreFilterPodTopologySpread"

func (p podTopologySpread) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	constraints, err := constraintsOf(pod, corev1.DoNotSchedule)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	if len(constraints) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	s := &spread{constraints: constraints, pods: make([]map[string]int, len(constraints)), least: make([]int, len(constraints))}
	for i := range s.pods {
		s.pods[i] = map[string]int{}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, info := range nodes {
		node := info.Node()
		if !hasKeys(node, constraints) {
			continue
		}
		for i := range constraints {
			if c := &constraints[i]; c.counts(pod, node, required) {
				s.pods[i][node.Labels[c.key]] += c.matching(info.GetPods(), pod.Namespace)
			}
		}
	}
	s.findLeast()
	state.Write(spreadKey, s)
	return nil, nil
}

// findLeast computes the lowest count of each constraint. It is zero with fewer values than minDomains.
func (s *spread) findLeast() {
	for i, c := range s.constraints {
		s.least[i] = math.MaxInt32
		for _, n := range s.pods[i] {
			s.least[i] = min(s.least[i], n)
		}
		if len(s.pods[i]) < c.minDomains {
			s.least[i] = 0
		}
	}
}

func (p podTopologySpread) PreFilterExtensions() framework.PreFilterExtensions { return p }

// AddPod and RemovePod implement framework.PreFilterExtensions.
func (p podTopologySpread) AddPod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, other.GetPod(), node.Node(), 1)
}

func (p podTopologySpread) RemovePod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, other.GetPod(), node.Node(), -1)
}

func (podTopologySpread) recount(state framework.CycleState, pod, other *corev1.Pod, node *corev1.Node, by int) *framework.Status {
	v, err := state.Read(spreadKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	s := v.(*spread)
	if !hasKeys(node, s.constraints) {
		return nil
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for i := range s.constraints {
		if c := &s.constraints[i]; c.isAbout(other, pod.Namespace) && c.counts(pod, node, required) {
			s.pods[i][node.Labels[c.key]] += by
		}
	}
	s.findLeast()
	return nil
}

func (podTopologySpread) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	v, err := state.Read(spreadKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	s := v.(*spread)
	for i := range s.constraints {
		c := &s.constraints[i]
		value, ok := info.Node().Labels[c.key]
		if !ok {
			return framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonNoKey)
		}
		self := 0
		if c.selector.Matches(labels.Set(pod.Labels)) {
			self = 1
		}
		if s.pods[i][value]+self-s.least[i] > c.maxSkew {
			return framework.NewStatus(framework.Unschedulable, reasonSkew)
		}
	}
	return nil
}

// NodeLocal implements scheduler.NodeLocal: without constraints the plugin accepts every node.
func (podTopologySpread) NodeLocal(pod *corev1.Pod, _ framework.SharedLister) bool {
	return len(pod.Spec.TopologySpreadConstraints) == 0
}

// SignPod signs nothing: a pod with constraints is not NodeLocal.
func (podTopologySpread) SignPod(context.Context, *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return nil, nil
}

func (p podTopologySpread) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Add|framework.Delete|framework.UpdatePodLabel, p.podHelps),
		on(framework.Node, framework.Add|framework.Delete|framework.UpdateNodeLabel|framework.UpdateNodeTaint, p.nodeHelps),
	}, nil
}

// podHelps reports whether a pod that was added, deleted or relabeled counts for one of the constraints.
func (podTopologySpread) podHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	was, is := podOf(old), podOf(now)
	if is != nil && is.UID == pod.UID {
		return framework.Queue, nil
	}
	constraints, err := constraintsOf(pod, corev1.DoNotSchedule)
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
func (podTopologySpread) nodeHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	constraints, err := constraintsOf(pod, corev1.DoNotSchedule)
	was, is := nodeOf(old), nodeOf(now)
	return queueIf(was != nil && hasKeys(was, constraints) || is != nil && hasKeys(is, constraints)), err
}
