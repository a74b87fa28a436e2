package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// groupAttempt is one attempt to schedule the pods of a PodGroup that have no node. It has two steps. The first tries one pod after the
// other, each with those before it assumed on their nodes, and then takes all of them off again. If a Permit plugin allowed one of the pods
// with all others assumed, the second step assumes the pods that found a node again and starts their binding cycles. So no pod of a gang
// holds room while others of it find none.
type groupAttempt struct {
	key     objects.Key
	profile *profile
	state   *cycleState // of the group
	members []*member

	placements []minikctl.PlacementAttempt // those that were tried; nil: all nodes at once
	times      []minikctl.PluginTime       // of the plugins of placements
}

// member is a pod in an attempt of its group.
type member struct {
	*attempt
	found      string                    // the node that the cycle found, or that is freed by preemption; "": none
	status     *framework.Status         // why the pod has no node; nil: it has one, or was not tried
	permit     *framework.Status         // of the Permit plugins for a pod with a node: nil or Wait
	preempts   bool                      // victims have to leave the node first
	preemption *Preemption               // of the PostFilter plugins; nil: none
	nominating *framework.NominatingInfo // of the PostFilter plugins
	message    string                    // of a pod without a node, as in its condition
	took       time.Duration             // its own part of the attempt
	draft      *minikctl.Decision        // nil: the pod was not tried

	rejecting, pending sets.Set[string] // plugins, as in queue.requeueUnschedulable
}

var (
	_ framework.PodGroupInfo       = (*groupAttempt)(nil)
	_ framework.ProposedAssignment = (*member)(nil)
)

// GetPod and GetNodeName implement framework.ProposedAssignment.
func (m *member) GetPod() *corev1.Pod { return m.info.pod }
func (m *member) GetNodeName() string { return m.found }

// GetNamespace and the methods below implement framework.PodGroupInfo.
func (g *groupAttempt) GetNamespace() string { return g.key.Namespace }
func (g *groupAttempt) GetName() string      { return g.key.Name }
func (g *groupAttempt) GetUnscheduledPods() []*corev1.Pod {
	out := make([]*corev1.Pod, len(g.members))
	for i, m := range g.members {
		out[i] = m.info.pod
	}
	return out
}

// errGroupUnschedulable is the error of pods that found a node while their group as a whole found none.
var errGroupUnschedulable = errors.New("pod group is unschedulable")

// attemptGroup runs the scheduling cycle of the PodGroup of p, the pod that was popped. began is when the loop began to drain the inbox.
func (s *Scheduler) attemptGroup(ctx context.Context, key objects.Key, p *queuedPodInfo, began time.Time) {
	start := s.machine.Now()
	g, status, preempting := s.groupCycle(ctx, key, p, began)
	if len(g.members) == 0 {
		return
	}
	s.metrics.groupsAlgorithm.Observe(s.machine.Since(start).Seconds())
	s.submitGroup(ctx, g, status, preempting)
	s.metrics.group(g.profile.name, groupResult(status, preempting), s.machine.Since(start))
	s.setGroupCondition(ctx, key, status)
}

// groupCycle takes the pods of a group out of the queue and tries them. status and preempting are those of tryGroup.
func (s *Scheduler) groupCycle(ctx context.Context, key objects.Key, p *queuedPodInfo, began time.Time) (g *groupAttempt, status *framework.Status, preempting bool) {
	g = &groupAttempt{key: key, state: newCycleState()}
	for _, q := range s.takeGroup(ctx, key, p) {
		prof, ok := s.setup.profiles[q.info.pod.Spec.SchedulerName]
		if !ok || q.info.pod.DeletionTimestamp != nil {
			s.skip(ctx, q)
			continue
		}
		a := s.newAttempt(q, prof, began)
		a.group = g.state
		g.members = append(g.members, &member{attempt: a})
	}
	if len(g.members) == 0 {
		return g, nil, false
	}
	g.profile = g.members[0].profile
	if status = g.checkProfile(); status == nil {
		status, preempting = s.tryGroup(ctx, g)
	}
	return g, status, preempting
}

// groupResult returns the result, in metrics, of an attempt to schedule a group. status and preempting are those of tryGroup.
func groupResult(status *framework.Status, preempting bool) string {
	switch {
	case status.IsSuccess():
		return resultScheduled
	case preempting:
		return "waiting_on_preemption"
	case status.IsRejected():
		return resultUnschedulable
	}
	return resultError
}

// takeGroup takes the pods of a group that are in the queue, besides the one that was popped, and returns all of them: those of high priority
// first, and then those that were tried first.
func (s *Scheduler) takeGroup(ctx context.Context, key objects.Key, popped *queuedPodInfo) []*queuedPodInfo {
	now := s.clock.Now()
	var others []*queuedPodInfo
	if state, err := s.groups.Get(key.Namespace, key.Name); err == nil {
		for pod := range maps.Values(state.UnscheduledPods()) {
			if p := s.queue.pods[pod.UID]; p != nil && p != popped {
				others = append(others, p)
			}
		}
	}
	slices.SortFunc(others, byArrival)
	taken := []*queuedPodInfo{popped}
	for _, p := range others {
		if p.location != inActiveQ && p.location != inFlight {
			s.queue.moveToActiveQ(ctx, p, forceActivate, now)
		}
		if p.location == inActiveQ {
			s.queue.take(ctx, p, now)
			taken = append(taken, p)
		}
	}
	slices.SortFunc(taken, func(a, b *queuedPodInfo) int {
		return cmp.Or(cmp.Compare(helper.PodPriority(b.info.pod), helper.PodPriority(a.info.pod)), a.firstAttempt.Compare(b.firstAttempt), byArrival(a, b))
	})
	return taken
}

// checkProfile returns an error if the pods have different profiles.
func (g *groupAttempt) checkProfile() *framework.Status {
	for _, m := range g.members {
		if m.profile != g.profile {
			return framework.AsStatus(fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", g.profile.name, m.profile.name))
		}
	}
	return nil
}

// tryGroup tries the pods of a group, in each of its placements if the feature gate is on, and takes them off their nodes again. It returns nil
// if the group can be scheduled, and otherwise why not; preempting is true if it can be once the victims of its pods have left.
func (s *Scheduler) tryGroup(ctx context.Context, g *groupAttempt) (status *framework.Status, preempting bool) {
	if s.features.TopologyAwareWorkloadScheduling {
		return s.tryPlacements(ctx, g)
	}
	return s.tryMembers(ctx, g.members)
}

// tryMembers tries the pods of a group on the nodes at hand. Its results are those of tryGroup.
func (s *Scheduler) tryMembers(ctx context.Context, members []*member) (status *framework.Status, preempting bool) {
	defer func() {
		for _, m := range slices.Backward(members) {
			if m.assumed != nil {
				s.revert(ctx, m)
			}
		}
	}()
	status = framework.NewStatus(framework.Unschedulable).WithError(errGroupUnschedulable)
	preempts := false
	for _, m := range members {
		s.tryMember(ctx, m)
		switch {
		case m.assumed != nil:
		case m.status.IsRejected():
			continue // others of the group may be enough
		default:
			return framework.AsStatus(fmt.Errorf("failed to schedule other pod from a pod group: %w", m.status.AsError())), false
		}
		preempts = preempts || m.preempts
		switch {
		case !m.permit.IsSuccess():
		case preempts:
			status, preempting = framework.NewStatus(framework.Unschedulable, "pod group is waiting for preemption to complete").WithError(errGroupUnschedulable), true
		default:
			status = nil
		}
	}
	return status, preempting
}

// tryMember runs the scheduling cycle for a pod of a group, and assumes it on the node that it found. Of the decision it keeps copies, since
// the next pod may change the evaluation.
func (s *Scheduler) tryMember(ctx context.Context, m *member) {
	start := s.machine.Now()
	defer func() { m.took = s.machine.Since(start) }()
	d := s.decide(ctx, m.attempt, start)
	m.draft, m.status, m.message = s.decisions.draft(m.attempt, &d), d.status, d.message()
	m.rejecting, m.pending = d.rejectors()
	m.nominating, m.preemption = d.nominating, d.preemption
	switch {
	case d.status == nil:
		m.found = d.node.node.Name
	case d.nominating != nil && d.nominating.NominatedNodeName != "" && !d.status.IsError():
		m.found, m.preempts = d.nominating.NominatedNodeName, true
	default:
		return
	}
	m.node = m.found
	m.state.SetPodGroupSchedulingCycle(m.group)
	m.nomination = s.nominator.node(m.info.pod.UID)
	s.assumeInSnapshot(m.attempt)
	permit := m.profile.runReserve(ctx, m.attempt)
	if permit.IsSuccess() {
		permit, _ = m.profile.runPermit(ctx, m.attempt)
	}
	if permit.IsSuccess() || permit.IsWait() {
		m.permit = permit
		return
	}
	s.revert(ctx, m)
	m.found, m.preempts, m.nominating, m.status, m.message = "", false, clearNomination, permit, permit.Message()
	if permit.IsRejected() {
		m.message = fitMessage(1, "", map[string]int{permit.Message(): 1}, "")
		m.rejecting = sets.New(permit.Plugin())
	}
}

// revert takes an assumed pod of a group off its node.
func (s *Scheduler) revert(ctx context.Context, m *member) {
	m.profile.unreserve(ctx, m.attempt)
	s.cluster.removePod(m.info.pod.UID)
	s.groups.forget(m.info.pod)
	if m.nomination != "" {
		s.nominator.add(m.info, &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: m.nomination})
	}
	m.assumed = nil
}

// submitGroup starts the binding cycles of the pods of a group that can be scheduled, and requeues the others. status and preempting are
// those of tryGroup.
func (s *Scheduler) submitGroup(ctx context.Context, g *groupAttempt, status *framework.Status, preempting bool) {
	report := g.report(status)
	report.TopologyKeys = s.topologyKeys(g.key)
	var binding []*attempt
	for _, m := range g.members {
		m.reported = report
		m.times = slices.Concat(g.times, m.times)
		m.began = s.machine.Now().Add(-m.took) // the attempt of the pod does not include those of others
		if !status.IsSuccess() || !m.status.IsSuccess() {
			s.failMember(ctx, m, status, preempting)
			continue
		}
		if s.decided != nil {
			s.decided(m.info.pod.Name, m.found)
		}
		s.decisions.finish(m.attempt, m.draft, "Scheduled", m.found, "")
		m.state.SetPodGroupSchedulingCycle(nil)
		now := s.machine.Now()
		s.assume(m.attempt)
		if failed := s.reserve(ctx, m.attempt); !failed.IsSuccess() {
			s.forgetPod(ctx, m.attempt, failed)
			continue
		}
		m.bindStart = m.stage("reserve", now, s.machine.Now())
		binding = append(binding, m.attempt)
	}
	for _, a := range binding { // once all are assumed, so that those which Permit plugins let wait are allowed by now
		s.startBinding(ctx, a)
	}
}

// failMember requeues a pod of a group that was not scheduled, and records the reason. group is the status of the group.
func (s *Scheduler) failMember(ctx context.Context, m *member, group *framework.Status, preempting bool) {
	failed, message, nominating := m.failure(group, preempting)
	m.node = ""
	if m.draft == nil {
		m.draft = s.decisions.report(m.attempt, "", "")
	}
	s.requeueMember(m, failed)
	if failed.IsError() {
		slog.ErrorContext(ctx, "scheduling failed", "pod", podName(m.info.pod), "err", message)
		s.decisions.finish(m.attempt, m.draft, "Error", "", message)
		s.recordFailure(ctx, m.attempt, corev1.PodReasonSchedulerError, message, nominating)
		return
	}
	s.decisions.finish(m.attempt, m.draft, "Unschedulable", "", message)
	s.recordFailure(ctx, m.attempt, corev1.PodReasonUnschedulable, message, nominating)
}

// failure returns why a pod of a group was not scheduled, the message for its condition, and its nomination. group is the status of the group.
func (m *member) failure(group *framework.Status, preempting bool) (failed *framework.Status, message string, nominating *framework.NominatingInfo) {
	failed, message, nominating = m.status, m.message, m.nominating
	switch {
	case m.draft == nil && !group.IsError(): // not tried: the group has no placement
		failed, message = group, group.Message()
	case group.IsError():
		nominating = clearNomination
		if !m.status.IsError() {
			failed, message = group, group.AsError().Error()
		}
	case m.status.IsSuccess() && preempting:
		failed, message = group, group.Message()
		nominating = &framework.NominatingInfo{NominatingMode: framework.ModeOverride, NominatedNodeName: m.found}
	case m.found != "" && !preempting: // the pod found a node, and others of the group did not
		failed, nominating = framework.NewStatus(framework.Unschedulable, m.permit.Message()).WithError(errGroupUnschedulable), clearNomination
		message = failed.Message()
	}
	return failed, message, nominating
}

// requeueMember requeues a pod of a group that was not scheduled. As in Kubernetes, events do not wake it before its backoff ends.
func (s *Scheduler) requeueMember(m *member, failed *framework.Status) {
	now := s.clock.Now()
	if failed.IsError() {
		s.queue.requeueError(m.queuedPodInfo, now)
		return
	}
	s.queue.requeueUnschedulable(m.queuedPodInfo, m.rejecting, m.pending, true, now)
}

// maxBlocking bounds the pods that a decision names as the reason why their group is unschedulable.
const maxBlocking = 8

// topologyKeys returns the node labels of the topology constraints of a PodGroup.
func (s *Scheduler) topologyKeys(key objects.Key) []string {
	group, ok := s.objects.podGroup(key)
	if !ok || !constrained(group) {
		return nil
	}
	var out []string
	for _, t := range group.Spec.SchedulingConstraints.Topology {
		out = append(out, t.Key)
	}
	return out
}

// report returns the outcome of a group for the decisions of its pods.
func (g *groupAttempt) report(status *framework.Status) *minikctl.GroupAttempt {
	out := &minikctl.GroupAttempt{Name: g.key.Name, Pods: len(g.members), Outcome: "Scheduled", Message: status.Message(), Placements: g.placements}
	switch {
	case status.IsError():
		out.Outcome = "Error"
	case !status.IsSuccess():
		out.Outcome = "Unschedulable"
	}
	if !status.IsSuccess() {
		out.RejectedBy = status.Plugin()
	}
	for _, m := range g.members {
		switch {
		case m.status.IsSuccess() && m.found != "":
			out.Placed++
		case !m.status.IsSuccess() && len(out.Blocking) < maxBlocking:
			out.Blocking = append(out.Blocking, minikctl.BlockingPod{Pod: m.info.pod.Name, Message: m.message})
		}
	}
	return out
}
