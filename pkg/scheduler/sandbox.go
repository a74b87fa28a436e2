package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// Sandbox is a scheduler with a copy of a cluster and no server. Pods are scheduled one by one (Schedule), or wait in the scheduling queue (SetPod) until
// Next tries them; the caller moves the simulation's clock. It is not safe for concurrent use.
type Sandbox struct {
	s        *Scheduler
	made     int            // pods without a UID
	queueing bool           // pods wait in the queue, for which changes of objects are events
	changes  []objectChange // that plugins made, and that are no events yet
}

// objectChange is a change of an object of a resource.
type objectChange struct {
	of framework.EventResource
	client.Change[objects.Object]
}

// ScheduleResult is the result of a pod in a Sandbox. A pod that makes room for itself has the pods that it evicted.
type ScheduleResult struct {
	Node    string // "": it has none
	Message string // why it has none, as in the FailedScheduling event
	Evicted []*corev1.Pod
}

// NewSandbox returns a sandbox with the simulation's cluster. Its Pod and Draw are not used: seed draws among equally good nodes. The caller
// closes it.
func NewSandbox(ctx context.Context, q Simulation, seed uint64) (*Sandbox, error) {
	if slices.ContainsFunc(q.Objects[framework.PodGroup], constrained) {
		q.Features.TopologyAwareWorkloadScheduling = true // without the gate, the API stores no constraints
	}
	s, err := newOffline(ctx, q)
	if err != nil {
		return nil, err
	}
	s.random = clock.NewSource(seed)
	s.queue.failed = func(context.Context, *queuedPodInfo, *pluginFailure) {} // the pod is tried again after its backoff
	b := &Sandbox{s: s}
	s.objects.announce = func(of framework.EventResource, ch client.Change[objects.Object]) {
		if b.queueing {
			b.changes = append(b.changes, objectChange{of, ch})
		}
	}
	if err := fillSnapshot(s.cluster, q.Nodes, q.Pods); err != nil {
		b.Close(ctx)
		return nil, err
	}
	return b, nil
}

// constrained reports whether a PodGroup has scheduling constraints.
func constrained(group objects.Object) bool {
	g, ok := group.(*schedulingv1alpha2.PodGroup)
	return ok && g.Spec.SchedulingConstraints != nil
}

// Close closes the plugins.
func (b *Sandbox) Close(ctx context.Context) { b.s.stopPlugins(ctx) }

// Schedule schedules a pod. If it finds no node, and the PostFilter plugins can make room, the victims are removed and it is assumed there. Pods with a node keep it.
func (b *Sandbox) Schedule(ctx context.Context, pod *corev1.Pod) (ScheduleResult, error) {
	a, err := b.attempt(pod)
	if err != nil {
		return ScheduleResult{}, err
	}
	if node := pod.Spec.NodeName; node != "" {
		b.s.groups.set(a.info.pod)
		b.s.cluster.addPod(a.info, node, false)
		return ScheduleResult{Node: node}, nil
	}
	if a.profile == nil {
		return ScheduleResult{Message: fmt.Sprintf("no profile for schedulerName %q", a.info.pod.Spec.SchedulerName)}, nil
	}
	if reason := b.gated(ctx, a); reason != "" {
		return ScheduleResult{Message: reason}, nil
	}
	if g := b.limitedGroup(a); g != nil {
		return b.scheduleInBest(ctx, g, 1)[0], nil
	}
	d := b.decide(ctx, a)
	var evicted []*corev1.Pod
	if d.status != nil && d.preemption != nil {
		if a, err = b.evict(a.info.pod, d.preemption); err != nil {
			return ScheduleResult{}, err
		}
		evicted = d.preemption.Victims
		d = b.decide(ctx, a)
	}
	if d.status != nil {
		return ScheduleResult{Message: d.message(), Evicted: evicted}, nil
	}
	b.assume(ctx, a, d.node.node.Name)
	return ScheduleResult{Node: a.node, Evicted: evicted}, nil
}

// decide runs the scheduling cycle for a pod, and once more if a PostFilter plugin has changed objects so that the pod may fit now.
func (b *Sandbox) decide(ctx context.Context, a *attempt) decision {
	before := b.s.objects.changed()
	d := b.s.decide(ctx, a, wallClock.Now())
	if d.status != nil && b.s.objects.changed() != before {
		d = b.s.decide(ctx, a, wallClock.Now())
	}
	return d
}

// assume assumes a pod on a node, and notes what the plugins would write about it.
func (b *Sandbox) assume(ctx context.Context, a *attempt, node string) {
	a.node = node
	b.s.assume(a)
	delete(b.s.binding, string(a.info.pod.UID))
	for _, plugin := range a.profile.preBind {
		if p, ok := plugin.instance.Plugin.(BindsSimulated); ok && !plugin.passes(a) {
			p.BindSimulated(ctx, a.state, a.info.pod, node)
		}
	}
}

// gated returns why a PreEnqueue plugin keeps a pod out of the queue, "" if none does.
func (b *Sandbox) gated(ctx context.Context, a *attempt) string {
	plugin, message, failure := b.s.queue.gate(ctx, a.queuedPodInfo)
	lacks := b.lacksTemplate(a.info.pod)
	switch {
	case failure != nil:
		return failure.Error()
	case plugin == "":
		return ""
	case lacks != "":
		return lacks
	case message == "":
		return "gated by the scheduler plugin " + plugin
	}
	return "gated by the scheduler plugin " + plugin + ": " + message
}

// limitedGroup returns an attempt of the pod's PodGroup with this pod alone if the group has scheduling constraints, nil if it has none.
func (b *Sandbox) limitedGroup(a *attempt) *groupAttempt {
	key, grouped := podref.PodGroup(a.info.pod)
	if !grouped || !b.s.features.TopologyAwareWorkloadScheduling {
		return nil
	}
	if group, ok := b.s.objects.podGroup(key); !ok || !constrained(group) {
		return nil
	}
	b.s.groups.set(a.info.pod)
	return &groupAttempt{key: key, state: newCycleState(), members: []*member{{attempt: a}}}
}

// ScheduleGroup schedules pods of one group if at least need of them find a node, without evictions. Otherwise it schedules none of them, and the
// messages are the reasons of those that found no node. With the feature gate, the pods of a PodGroup are scheduled in the best of its placements.
// The result is in the order of the pods.
func (b *Sandbox) ScheduleGroup(ctx context.Context, pods []*corev1.Pod, need int) ([]ScheduleResult, error) {
	g := &groupAttempt{state: newCycleState()}
	grouped := false
	for _, pod := range pods {
		a, err := b.attempt(pod)
		if err != nil {
			return nil, err
		}
		g.members = append(g.members, &member{attempt: a})
		g.key, grouped = podref.PodGroup(a.info.pod)
		b.s.groups.set(a.info.pod)
	}
	if grouped && b.s.features.TopologyAwareWorkloadScheduling {
		return b.scheduleInBest(ctx, g, need), nil
	}
	end := b.s.objects.mark()
	out, lacking := b.scheduleMembers(ctx, g, need)
	if lacking != "" {
		b.takeOff(g, out)
	}
	end(lacking != "")
	return withReason(out, lacking), nil
}

// scheduleMembers schedules the pods of a group. It returns why it cannot be scheduled if fewer than need find a node.
func (b *Sandbox) scheduleMembers(ctx context.Context, g *groupAttempt, need int) (out []ScheduleResult, lacking string) {
	found, blocking := 0, ""
	cluster := b.s.cluster
	for _, m := range g.members {
		p := ScheduleResult{Message: "a call of a plugin was abandoned"}
		if b.s.cluster == cluster { // a later snapshot has all nodes again, also those outside of the placement
			p = b.scheduleAlone(ctx, m.attempt)
		}
		out = append(out, p)
		if p.Node != "" {
			found++
		} else if blocking == "" {
			blocking = fmt.Sprintf("; pod %s finds no node: %s", podName(m.info.pod), p.Message)
		}
	}
	if found < need {
		lacking = fmt.Sprintf("%v: %d of its %d pods find a node, and %d have to%s", errGroupUnschedulable, found, len(out), need, blocking)
	}
	return out, lacking
}

// takeOff removes the pods of a group from the nodes that they found.
func (b *Sandbox) takeOff(g *groupAttempt, from []ScheduleResult) {
	for i, m := range g.members {
		if from[i].Node != "" {
			b.s.cluster.removePod(m.info.pod.UID)
			b.s.groups.forget(m.info.pod)
		}
	}
}

// withReason returns the results of a group that cannot be scheduled for a reason: the pods with a node have none after all.
func withReason(out []ScheduleResult, reason string) []ScheduleResult {
	for i := range out {
		if reason != "" && out[i].Node != "" {
			out[i] = ScheduleResult{Message: reason}
		}
	}
	return out
}

// scheduleInBest schedules the pods of a group in the best of its placements in which enough of them find a node.
func (b *Sandbox) scheduleInBest(ctx context.Context, g *groupAttempt, need int) []ScheduleResult {
	refused := func(reason string) []ScheduleResult {
		return slices.Repeat([]ScheduleResult{{Message: reason}}, len(g.members))
	}
	g.profile = g.members[0].profile
	if g.profile == nil {
		return refused(fmt.Sprintf("no profile for schedulerName %q", g.members[0].info.pod.Spec.SchedulerName))
	}
	if status := g.checkProfile(); status != nil {
		return refused(status.Message())
	}
	placements, status := b.s.generatePlacements(ctx, g)
	if !status.IsSuccess() {
		return refused(status.Message())
	}
	var first []ScheduleResult
	var feasible [][]ScheduleResult
	var states [][]framework.CycleState // of the members in these
	var assignments []*framework.PodGroupAssignments
	reason := ""
	for _, p := range placements {
		var out []ScheduleResult
		lacking := ""
		end := b.s.objects.mark()
		err := b.s.inPlacement(p, func() { out, lacking = b.scheduleMembers(ctx, g, need); b.takeOff(g, out) })
		if end(true); err != nil {
			return refused(fmt.Sprintf("failed to assume pod group placement: %v", err))
		}
		if first == nil {
			first, reason = out, lacking
		}
		if lacking == "" {
			feasible, states, assignments = append(feasible, out), append(states, statesOf(g)), append(assignments, proposal(g, p, out))
		}
	}
	if len(feasible) == 0 {
		return withReason(first, fmt.Sprintf("0/%d placements are available, first placement status: %s", len(placements), reason))
	}
	best := 0
	if len(feasible) > 1 {
		if _, best, status = b.s.scorePlacements(ctx, g, assignments); !status.IsSuccess() {
			return refused(status.Message())
		}
	}
	for i, m := range g.members {
		if node := feasible[best][i].Node; node != "" {
			m.state = states[best][i]
			b.assume(ctx, m.attempt, node)
		}
	}
	return feasible[best]
}

// statesOf returns the states of the cycles of a group's members.
func statesOf(g *groupAttempt) []framework.CycleState {
	out := make([]framework.CycleState, len(g.members))
	for i, m := range g.members {
		out[i] = m.state
	}
	return out
}

// proposal returns the pods of a group on the nodes that they found in a placement.
func proposal(g *groupAttempt, p *framework.Placement, out []ScheduleResult) *framework.PodGroupAssignments {
	a := &framework.PodGroupAssignments{Placement: p}
	for i, m := range g.members {
		if node := out[i].Node; node != "" {
			a.ProposedAssignments = append(a.ProposedAssignments, &member{attempt: m.attempt, found: node})
		}
	}
	return a
}

// scheduleAlone schedules a pod without evictions.
func (b *Sandbox) scheduleAlone(ctx context.Context, a *attempt) ScheduleResult {
	if a.profile == nil {
		return ScheduleResult{Message: fmt.Sprintf("no profile for schedulerName %q", a.info.pod.Spec.SchedulerName)}
	}
	if reason := b.gated(ctx, a); reason != "" {
		return ScheduleResult{Message: reason}
	}
	d := b.decide(ctx, a)
	if d.status != nil {
		return ScheduleResult{Message: d.message()}
	}
	b.assume(ctx, a, d.node.node.Name)
	return ScheduleResult{Node: a.node}
}

// attempt returns a first attempt to schedule a copy of the pod. A pod without a UID gets one, and a pod without a node the claims of its templates.
func (b *Sandbox) attempt(pod *corev1.Pod) (*attempt, error) {
	pod = pod.DeepCopy()
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if pod.UID == "" {
		b.made++
		pod.UID = types.UID(fmt.Sprintf("sandbox-%d", b.made))
	}
	if pod.Spec.NodeName == "" {
		b.giveClaims(pod)
	}
	info, err := newPodInfo(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	return &attempt{queuedPodInfo: &queuedPodInfo{info: info, attempts: 1}, profile: b.s.setup.profiles[pod.Spec.SchedulerName]}, nil
}

// evict removes the victims with their claims, and returns an attempt of the preemptor that is nominated to their node.
func (b *Sandbox) evict(preemptor *corev1.Pod, p *Preemption) (*attempt, error) {
	for _, v := range p.Victims {
		b.s.cluster.removePod(v.UID)
		b.freeClaims(v, true)
	}
	pod := preemptor.DeepCopy()
	pod.Status.NominatedNodeName = p.Node
	return b.attempt(pod)
}

// Fit returns how many pods find a node in addition to the pods that have one, without evictions, but at most limit. next returns the pod that comes
// next, and may put objects that it needs. All of this is removed again.
func (b *Sandbox) Fit(ctx context.Context, limit int, next func(SimulatedObjects) *corev1.Pod) (int, error) {
	var found []types.UID
	end := b.s.objects.mark()
	defer func() {
		for _, uid := range found {
			b.s.cluster.removePod(uid)
		}
		end(true)
	}()
	for len(found) < limit {
		a, err := b.attempt(next(SimulatedObjects{b.s.objects}))
		if err != nil || a.profile == nil {
			return 0, err
		}
		d := b.decide(ctx, a)
		if d.status != nil {
			break
		}
		b.assume(ctx, a, d.node.node.Name)
		found = append(found, a.info.pod.UID)
	}
	return len(found), nil
}

// Explain filters and scores all nodes for a pod, which is removed from its node first if it is on one, with its devices, and returns a decision that lists one node.
func (b *Sandbox) Explain(ctx context.Context, pod *corev1.Pod, node string) (*minikctl.Decision, error) {
	if _, found := b.s.cluster.removePod(pod.UID); found {
		b.freeClaims(pod, false)
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.Status.NominatedNodeName = "", ""
	a, err := b.attempt(pod)
	if err != nil {
		return nil, err
	}
	if a.profile == nil {
		return nil, fmt.Errorf("no profile for schedulerName %q", pod.Spec.SchedulerName)
	}
	n, ok := b.s.cluster.byName[node]
	if !ok || n.node == nil {
		return nil, fmt.Errorf("node %q not found", node)
	}
	var d decision
	all := *a.profile
	all.percentage = 0 // no node is left out
	failure := b.s.calls.do(ctx, a.profile.cooperative, func(ctx context.Context, t *tracker) {
		d = decision{evaluation: all.evaluate(ctx, t, b.s.cluster, a.info.pod, newCycleState(), func() {}), cluster: b.s.cluster, nodes: len(b.s.cluster.nodes)}
	})
	if failure != nil {
		return nil, failure
	}
	out := b.s.decisions.report(a, "Evaluated", "")
	d.describe(out)
	out.Rejected = nil
	if d.failure != nil {
		out.Message = d.failure.Message()
		return out, nil
	}
	at := d.indexOf(n)
	if status := d.statuses[at]; status != nil {
		out.Rejected = []minikctl.Rejection{{Plugin: status.Plugin(), Reasons: status.Reasons(), Nodes: []string{node}, Count: 1}}
	} else if d.filtered[at] && d.scored {
		out.Scores = []minikctl.NodeScores{{Nodes: []string{node}, Total: d.totals[at], Plugins: d.pluginScores(at)}}
	}
	return out, nil
}
