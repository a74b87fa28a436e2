package schedplugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// interPodAffinity filters nodes by the pod's required affinity and anti-affinity and by the required anti-affinity of
// the pods on the nodes, and scores nodes by the preferred terms of both.
type interPodAffinity struct {
	cooperative
	handle         framework.Handle
	namespaces     scheduler.Namespaces
	hardWeight     int32
	ignoreExisting bool
}

func defaultInterPodAffinity() configv1.InterPodAffinityArgs {
	weight := int32(1)
	return configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight}
}

func newInterPodAffinity(args configv1.InterPodAffinityArgs, h framework.Handle) (framework.Plugin, error) {
	weight := int32(1)
	if args.HardPodAffinityWeight != nil {
		weight = *args.HardPodAffinityWeight
	}
	if weight < 0 || weight > 100 {
		return nil, fmt.Errorf("args: hardPodAffinityWeight: Invalid value: %d: not in valid range [0-100]", weight)
	}
	namespaces, ok := h.(scheduler.Namespaces)
	if !ok {
		return nil, errors.New("the framework handle does not implement scheduler.Namespaces")
	}
	return &interPodAffinity{cooperative{}, h, namespaces, weight, args.IgnorePreferredTermsOfExistingPods}, nil
}

func (*interPodAffinity) Name() string { return "InterPodAffinity" }

const (
	reasonAffinity     = "node(s) didn't match pod affinity rules"
	reasonAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	reasonExistingAnti = "node(s) didn't satisfy existing pods anti-affinity rules"
)

// domain is the nodes that share a value of a topology key.
type domain struct{ key, value string }

// affinityState counts, by domain, the pods that match a pod's required terms or whose required anti-affinity matches the
// pod.
type affinityState struct {
	affinity, anti             []framework.AffinityTerm // the pod's terms; their namespace selectors are resolved
	labels                     labels.Set               // of the pod's namespace
	affinityCounts             map[domain]int           // pods that match all affinity terms
	antiAffinityCounts         map[domain]int           // pods that match an anti-affinity term
	existingAntiAffinityCounts map[domain]int           // pods with an anti-affinity term that matches the pod
}

// Clone implements framework.StateData.
func (n *affinityState) Clone() framework.StateData {
	c := *n
	c.affinityCounts, c.antiAffinityCounts, c.existingAntiAffinityCounts = copied(n.affinityCounts), copied(n.antiAffinityCounts), copied(n.existingAntiAffinityCounts)
	return &c
}

func copied(m map[domain]int) map[domain]int {
	out := make(map[domain]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

const affinityStateKey framework.StateKey = "PreFilterInterPodAffinity"

func (p *interPodAffinity) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	n := &affinityState{labels: p.namespaces.NamespaceLabels(pod.Namespace), affinityCounts: map[domain]int{}, antiAffinityCounts: map[domain]int{}, existingAntiAffinityCounts: map[domain]int{}}
	var err error
	if n.affinity, err = p.terms(pod, framework.GetPodAffinityTerms(pod.Spec.Affinity)); err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	if n.anti, err = p.terms(pod, framework.GetPodAntiAffinityTerms(pod.Spec.Affinity)); err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	nodesWithAntiAffinity, err := p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	for _, node := range nodesWithAntiAffinity {
		for _, other := range node.GetPodsWithRequiredAntiAffinity() {
			n.countExistingAntiAffinity(pod, other, node.Node(), 1)
		}
	}
	if len(n.affinity)+len(n.anti) > 0 {
		for _, node := range nodes {
			for _, other := range node.GetPods() {
				n.countOwnTerms(other.GetPod(), node.Node(), 1)
			}
		}
	} else if len(n.existingAntiAffinityCounts) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(affinityStateKey, n)
	return nil, nil
}

// terms parses a pod's terms and resolves their namespace selectors to namespaces.
func (p *interPodAffinity) terms(pod *corev1.Pod, raw []corev1.PodAffinityTerm) ([]framework.AffinityTerm, error) {
	terms, err := framework.GetAffinityTerms(pod, raw)
	if err != nil {
		return nil, err
	}
	for i := range terms {
		p.resolveNamespaces(&terms[i])
	}
	return terms, nil
}

func (p *interPodAffinity) resolveNamespaces(t *framework.AffinityTerm) {
	if t.NamespaceSelector.Empty() {
		return // all namespaces or, for labels.Nothing, none
	}
	t.Namespaces.Insert(p.namespaces.NamespacesMatching(t.NamespaceSelector)...)
	t.NamespaceSelector = labels.Nothing()
}

// countExistingAntiAffinity adds by for each anti-affinity term of other that matches the pod.
func (n *affinityState) countExistingAntiAffinity(pod *corev1.Pod, other framework.PodInfo, node *corev1.Node, by int) {
	terms := other.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if terms[i].Matches(pod, n.labels) {
			count(n.existingAntiAffinityCounts, node, terms[i].TopologyKey, by)
		}
	}
}

// countOwnTerms adds by for each of the pod's own terms that other matches.
func (n *affinityState) countOwnTerms(other *corev1.Pod, node *corev1.Node, by int) {
	if len(n.affinity) > 0 && matchesAll(n.affinity, other) {
		for i := range n.affinity {
			count(n.affinityCounts, node, n.affinity[i].TopologyKey, by)
		}
	}
	for i := range n.anti {
		if n.anti[i].Matches(other, nil) {
			count(n.antiAffinityCounts, node, n.anti[i].TopologyKey, by)
		}
	}
}

func matchesAll(terms []framework.AffinityTerm, pod *corev1.Pod) bool {
	for i := range terms {
		if !terms[i].Matches(pod, nil) {
			return false
		}
	}
	return len(terms) > 0
}

func count(m map[domain]int, node *corev1.Node, key string, by int) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	d := domain{key, value}
	if m[d] += by; m[d] == 0 {
		delete(m, d)
	}
}

func (p *interPodAffinity) PreFilterExtensions() framework.PreFilterExtensions { return p }

// AddPod and RemovePod implement framework.PreFilterExtensions.
func (p *interPodAffinity) AddPod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, other, node, 1)
}

func (p *interPodAffinity) RemovePod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, other, node, -1)
}

func (p *interPodAffinity) recount(state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo, by int) *framework.Status {
	s, err := state.Read(affinityStateKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	n := s.(*affinityState)
	n.countExistingAntiAffinity(pod, other, node.Node(), by)
	n.countOwnTerms(other.GetPod(), node.Node(), by)
	return nil
}

func (p *interPodAffinity) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	s, err := state.Read(affinityStateKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	n, node := s.(*affinityState), info.Node()
	switch {
	case !n.satisfiesAffinity(pod, node):
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, reasonAffinity)
	case n.violatesAntiAffinity(node):
		return framework.NewStatus(framework.Unschedulable, reasonAntiAffinity)
	case n.violatesExistingAntiAffinity(node):
		return framework.NewStatus(framework.Unschedulable, reasonExistingAnti)
	}
	return nil
}

// satisfiesAffinity reports whether the node is in a domain of each affinity term. The first pod of a group with affinity to
// itself may run on any node that has the topology keys.
func (n *affinityState) satisfiesAffinity(pod *corev1.Pod, node *corev1.Node) bool {
	near := true
	for i := range n.affinity {
		value, ok := node.Labels[n.affinity[i].TopologyKey]
		if !ok {
			return false
		}
		near = near && n.affinityCounts[domain{n.affinity[i].TopologyKey, value}] > 0
	}
	return near || len(n.affinityCounts) == 0 && matchesAll(n.affinity, pod)
}

func (n *affinityState) violatesAntiAffinity(node *corev1.Node) bool {
	if len(n.antiAffinityCounts) == 0 {
		return false
	}
	for i := range n.anti {
		if value, ok := node.Labels[n.anti[i].TopologyKey]; ok && n.antiAffinityCounts[domain{n.anti[i].TopologyKey, value}] > 0 {
			return true
		}
	}
	return false
}

func (n *affinityState) violatesExistingAntiAffinity(node *corev1.Node) bool {
	if len(n.existingAntiAffinityCounts) == 0 {
		return false
	}
	for key, value := range node.Labels {
		if n.existingAntiAffinityCounts[domain{key, value}] > 0 {
			return true
		}
	}
	return false
}

// NodeLocal implements scheduler.NodeLocal: the plugin skips a pod that has no affinity and that no other pod's
// affinity term matches.
func (p *interPodAffinity) NodeLocal(pod *corev1.Pod, cluster framework.SharedLister) bool {
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return false
	}
	nodes, err := cluster.NodeInfos().HavePodsWithAffinityList()
	if err != nil {
		return false
	}
	if len(nodes) == 0 {
		return true
	}
	ns := p.namespaces.NamespaceLabels(pod.Namespace)
	for _, node := range nodes {
		for _, other := range node.GetPodsWithAffinity() {
			if concerns(other, pod, ns) {
				return false
			}
		}
	}
	return true
}

// concerns reports whether an affinity term of other matches the pod.
func concerns(other framework.PodInfo, pod *corev1.Pod, ns labels.Set) bool {
	matches := func(t *framework.AffinityTerm) bool { return t.Matches(pod, ns) }
	for _, terms := range [][]framework.AffinityTerm{other.GetRequiredAntiAffinityTerms(), other.GetRequiredAffinityTerms()} {
		for i := range terms {
			if matches(&terms[i]) {
				return true
			}
		}
	}
	for _, terms := range [][]framework.WeightedAffinityTerm{other.GetPreferredAffinityTerms(), other.GetPreferredAntiAffinityTerms()} {
		for i := range terms {
			if matches(&terms[i].AffinityTerm) {
				return true
			}
		}
	}
	return false
}

// SignPod signs nothing: a pod that depends on other pods is not NodeLocal.
func (*interPodAffinity) SignPod(context.Context, *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return nil, nil
}

func (p *interPodAffinity) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Add|framework.Delete|framework.UpdatePodLabel, p.podHelps),
		on(framework.Node, framework.Add|framework.UpdateNodeLabel, p.nodeHelps),
	}, nil
}

// podHelps reports whether a pod that was added, deleted or relabeled matches a term of this pod, or has a term that
// matches this pod.
func (p *interPodAffinity) podHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	was, is := podOf(old), podOf(now)
	if is != nil && is.UID == pod.UID {
		return framework.Queue, nil
	}
	affinity, err := p.terms(pod, framework.GetPodAffinityTerms(pod.Spec.Affinity))
	if err != nil {
		return framework.Queue, err
	}
	anti, err := p.terms(pod, framework.GetPodAntiAffinityTerms(pod.Spec.Affinity))
	if err != nil {
		return framework.Queue, err
	}
	if is != nil && matchesAll(affinity, is) && (was == nil || !matchesAll(affinity, was)) {
		return framework.Queue, nil
	}
	if was == nil {
		return framework.QueueSkip, nil
	}
	for i := range anti {
		if anti[i].Matches(was, nil) && (is == nil || !anti[i].Matches(is, nil)) {
			return framework.Queue, nil
		}
	}
	if is != nil {
		return framework.QueueSkip, nil
	}
	theirs, err := framework.GetAffinityTerms(was, framework.GetPodAntiAffinityTerms(was.Spec.Affinity))
	own := p.namespaces.NamespaceLabels(pod.Namespace)
	for i := range theirs {
		if theirs[i].Matches(pod, own) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, err
}

// nodeHelps reports whether a node that was added or relabeled has a topology key of the pod's terms.
func (p *interPodAffinity) nodeHelps(_ klog.Logger, pod *corev1.Pod, old, now any) (framework.QueueingHint, error) {
	node, was := nodeOf(now), nodeOf(old)
	if node == nil {
		return framework.QueueSkip, nil
	}
	if was == nil {
		return framework.Queue, nil
	}
	changed := func(key string) bool { return node.Labels[key] != was.Labels[key] }
	for _, t := range framework.GetPodAffinityTerms(pod.Spec.Affinity) {
		if changed(t.TopologyKey) {
			return framework.Queue, nil
		}
	}
	for _, t := range framework.GetPodAntiAffinityTerms(pod.Spec.Affinity) {
		if changed(t.TopologyKey) {
			return framework.Queue, nil
		}
	}
	return queueIf(len(framework.GetPodAffinityTerms(pod.Spec.Affinity)) == 0), nil // a pod without terms is blocked by the terms of other pods
}
