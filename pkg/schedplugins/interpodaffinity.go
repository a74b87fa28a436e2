package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

	noAffinity, ownAnti, existingAnti *framework.Status // rejections
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
		return nil, field.Invalid(field.NewPath("hardPodAffinityWeight"), weight, "not in valid range [0-100]")
	}
	namespaces, ok := h.(scheduler.Namespaces)
	if !ok {
		return nil, errors.New("the framework handle does not implement scheduler.Namespaces")
	}
	rejection := func(code framework.Code, reason string) *framework.Status {
		return framework.NewStatus(code, reason).WithPlugin("InterPodAffinity")
	}
	return &interPodAffinity{
		handle: h, namespaces: namespaces, hardWeight: weight, ignoreExisting: args.IgnorePreferredTermsOfExistingPods,
		noAffinity:   rejection(framework.UnschedulableAndUnresolvable, reasonAffinity),
		ownAnti:      rejection(framework.Unschedulable, reasonAntiAffinity),
		existingAnti: rejection(framework.Unschedulable, reasonExistingAnti),
	}, nil
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
	c.affinityCounts, c.antiAffinityCounts, c.existingAntiAffinityCounts = maps.Clone(n.affinityCounts), maps.Clone(n.antiAffinityCounts), maps.Clone(n.existingAntiAffinityCounts)
	return &c
}

// CycleOnly implements scheduler.CycleData.
func (*affinityState) CycleOnly() {}

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
			n.countExistingAntiAffinity(pod, scheduler.PodChange{Pod: other, Node: node, By: 1}, nil)
		}
	}
	if len(n.affinity)+len(n.anti) > 0 {
		for _, node := range nodes {
			for _, other := range node.GetPods() {
				n.countOwnTerms(scheduler.PodChange{Pod: other, Node: node, By: 1}, nil)
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

// countExistingAntiAffinity counts the anti-affinity terms of the other pod that match the pod.
func (n *affinityState) countExistingAntiAffinity(pod *corev1.Pod, change scheduler.PodChange, stale *scheduler.Stale) {
	terms := change.Pod.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if terms[i].Matches(pod, n.labels) {
			count(n.existingAntiAffinityCounts, change, terms[i].TopologyKey, stale)
		}
	}
}

// countOwnTerms counts the pod's own terms that the other pod matches.
func (n *affinityState) countOwnTerms(change scheduler.PodChange, stale *scheduler.Stale) {
	other := change.Pod.GetPod()
	if len(n.affinity) > 0 && matchesAll(n.affinity, other) {
		for i := range n.affinity {
			count(n.affinityCounts, change, n.affinity[i].TopologyKey, stale)
		}
	}
	for i := range n.anti {
		if n.anti[i].Matches(other, nil) {
			count(n.antiAffinityCounts, change, n.anti[i].TopologyKey, stale)
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

// count changes the count of the node's domain. It adds the domain to stale, if not nil, when it becomes empty or is no longer.
func count(m map[domain]int, change scheduler.PodChange, key string, stale *scheduler.Stale) {
	value, ok := change.Node.Node().Labels[key]
	if !ok {
		return
	}
	d := domain{key, value}
	before := m[d]
	now := before + change.By
	if now == 0 {
		delete(m, d)
	} else {
		m[d] = now
	}
	if stale != nil && (before == 0) != (now == 0) {
		stale.Domain(key, value)
	}
}

func (p *interPodAffinity) PreFilterExtensions() framework.PreFilterExtensions { return p }

// AddPod and RemovePod implement framework.PreFilterExtensions.
func (p *interPodAffinity) AddPod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, scheduler.PodChange{Pod: other, Node: node, By: 1})
}

func (p *interPodAffinity) RemovePod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return p.recount(state, pod, scheduler.PodChange{Pod: other, Node: node, By: -1})
}

func (p *interPodAffinity) recount(state framework.CycleState, pod *corev1.Pod, change scheduler.PodChange) *framework.Status {
	s, err := state.Read(affinityStateKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	n := s.(*affinityState)
	n.countExistingAntiAffinity(pod, change, nil)
	n.countOwnTerms(change, nil)
	return nil
}

// UpdateFilter implements scheduler.Incremental: the verdict on a domain changes when the first matching pod comes or the
// last one leaves.
func (p *interPodAffinity) UpdateFilter(state framework.CycleState, pod *corev1.Pod, changes []scheduler.PodChange, stale *scheduler.Stale) bool {
	s, err := state.Read(affinityStateKey)
	if err != nil {
		return !p.anyRepels(changes, pod) // skipped
	}
	n := s.(*affinityState)
	alone := len(n.affinityCounts) == 0
	for _, ch := range changes {
		n.countExistingAntiAffinity(pod, ch, stale)
		n.countOwnTerms(ch, stale)
	}
	if alone != (len(n.affinityCounts) == 0) {
		stale.All() // the rule for the first pod of a group
	}
	return len(n.affinity)+len(n.anti)+len(n.existingAntiAffinityCounts) > 0
}

// anyRepels reports whether a required anti-affinity term of one of the changed pods matches the pod.
func (p *interPodAffinity) anyRepels(changes []scheduler.PodChange, pod *corev1.Pod) bool {
	for _, ch := range changes {
		terms := ch.Pod.GetRequiredAntiAffinityTerms()
		for i := range terms {
			if terms[i].Matches(pod, p.namespaces.NamespaceLabels(pod.Namespace)) {
				return true
			}
		}
	}
	return false
}

func (p *interPodAffinity) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, info framework.NodeInfo) *framework.Status {
	s, err := state.Read(affinityStateKey)
	if err != nil {
		return framework.AsStatus(err)
	}
	n, node := s.(*affinityState), info.Node()
	switch {
	case !n.satisfiesAffinity(pod, node):
		return p.noAffinity
	case n.violatesAntiAffinity(node):
		return p.ownAnti
	case n.violatesExistingAntiAffinity(node):
		return p.existingAnti
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

// SignPod signs the pod's terms and the labels by which terms select it: those that its own terms name, and those that the
// terms of assigned pods name. A pod without terms signs nothing while no assigned pod has one.
func (p *interPodAffinity) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	type whole struct {
		Namespace  string
		Namespaces uint64
		Keys       []string
		Labels     map[string]string
		Affinity   *corev1.PodAffinity
		Anti       *corev1.PodAntiAffinity
	}
	out := whole{Namespace: pod.Namespace, Namespaces: p.namespaces.NamespacesGeneration()}
	if a := pod.Spec.Affinity; a != nil {
		out.Affinity, out.Anti = a.PodAffinity, a.PodAntiAffinity
	}
	own := out.Affinity != nil || out.Anti != nil
	lister, ok := p.handle.SnapshotSharedLister().(scheduler.AffinityLabels)
	if !ok {
		return nil, framework.NewStatus(framework.Unschedulable, "the snapshot does not implement scheduler.AffinityLabels")
	}
	known := false
	if out.Keys, known = lister.AffinityLabels(); !known && !own {
		return nil, nil
	}
	if own {
		out.Labels = pod.Labels
		return signature("minikctl.dev/podAffinity", out)
	}
	for _, k := range out.Keys {
		if v, ok := pod.Labels[k]; ok {
			if out.Labels == nil {
				out.Labels = map[string]string{}
			}
			out.Labels[k] = v
		}
	}
	return signature("minikctl.dev/podAffinity", out)
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
