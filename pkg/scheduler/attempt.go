package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/trace"
)

// attempt is one attempt to schedule a pod, from the queue to the end of its binding cycle.
type attempt struct {
	*queuedPodInfo
	profile   *profile
	state     framework.CycleState
	node      string
	stages    []trace.Stage
	woken     *minikctl.Waking        // the event because of which the pod is tried; nil: none
	events    uint64                  // the queue's event count at the time of the decision
	nominated bool                    // status.nominatedNodeName has been written
	assumed   *corev1.Pod             // the copy with its node set
	bindStart time.Time               // when the binding cycle began
	calls     []minikctl.ExtenderCall // of the extender that binds
	times     []minikctl.PluginTime
	machine   clock.Clock        // measures times; nil: they are not measured
	began     time.Time          // when the attempt began
	sampled   bool               // metrics have its calls of plugins one by one
	report    *minikctl.Decision // that the pod is scheduled, while it waits for the times of the binding cycle

	// The fields below are those of a pod that is tried with its PodGroup.
	group      framework.PodGroupCycleState
	nomination string                 // the node that the pod was nominated to before it was assumed
	reported   *minikctl.GroupAttempt // the outcome of the group
}

// newAttempt returns an attempt of a pod that was popped. began is when the loop began to drain the inbox.
func (s *Scheduler) newAttempt(p *queuedPodInfo, prof *profile, began time.Time) *attempt {
	a := &attempt{queuedPodInfo: p, profile: prof, woken: p.wokenBy, events: s.queue.events, stages: make([]trace.Stage, 0, 6), machine: s.machine}
	p.wokenBy = nil
	a.sampled = s.begun%sampleEvery == 0
	s.begun++
	now := s.machine.Now()
	a.began = now
	a.stage("queue", now.Add(-s.clock.Since(p.timestamp)), now)
	a.stage("snapshot", began, now)
	return a
}

// stage records a stage that ends now, and returns the current time.
func (a *attempt) stage(name string, start, now time.Time) time.Time {
	a.stages = append(a.stages, trace.Stage{Name: name, Start: start, Took: now.Sub(start)})
	return now
}

// attempt runs the scheduling cycle for a pod and starts its binding cycle. began is when the loop began to drain the inbox.
func (s *Scheduler) attempt(ctx context.Context, p *queuedPodInfo, began time.Time) {
	if key, grouped := podref.PodGroup(p.info.pod); grouped && s.features.GenericWorkload {
		s.attemptGroup(ctx, key, p, began)
		return
	}
	prof, ok := s.setup.profiles[p.info.pod.Spec.SchedulerName]
	if !ok || p.info.pod.DeletionTimestamp != nil {
		s.skip(ctx, p)
		return
	}
	a := s.newAttempt(p, prof, began)
	d := s.decide(ctx, a, s.machine.Now())
	if d.status != nil {
		s.handleUnschedulable(ctx, a, &d)
		return
	}
	a.node = d.node.node.Name
	if s.decided != nil {
		s.decided(p.info.pod.Name, a.node)
	}
	s.decisions.scheduled(a, &d, len(s.queue.activeQ.pods))
	now := s.machine.Now()
	s.assume(a)
	if status := s.reserve(ctx, a); !status.IsSuccess() {
		s.forgetPod(ctx, a, status)
		return
	}
	a.bindStart = a.stage("reserve", now, s.machine.Now())
	s.startBinding(ctx, a)
}

// skip drops a pod that is being deleted, or whose profile no longer exists.
func (s *Scheduler) skip(ctx context.Context, p *queuedPodInfo) {
	pod := p.info.pod
	delete(s.queue.pods, pod.UID)
	if pod.DeletionTimestamp != nil {
		s.recorders.action(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
			fmt.Sprintf("skip schedule deleting pod: %v/%v", pod.Namespace, pod.Name))
	}
}

// decide runs the scheduling cycle for a pod.
func (s *Scheduler) decide(ctx context.Context, a *attempt, began time.Time) decision {
	defer s.decidedSince(began)
	var d decision
	cluster := s.cluster
	times := s.beginTimes(a.profile, a.sampled)
	failure := s.calls.do(ctx, a.profile.cooperative, func(ctx context.Context, t *tracker) {
		defer t.measure(times)()
		d = s.cycle(ctx, t, a, began)
	})
	s.endTimes(a, failure)
	if failure != nil {
		s.memo = newMemo()
		status := failure.status()
		return decision{evaluation: &evaluation{failure: status}, cluster: cluster, nodes: len(cluster.candidates()), status: status}
	}
	if d.preempts {
		s.metrics.preemptions.Inc()
	}
	if d.preemption != nil {
		s.metrics.victims.Observe(float64(len(d.preemption.Victims)))
	}
	return d
}

// decidedSince records how long a scheduling cycle took that began at a time.
func (s *Scheduler) decidedSince(began time.Time) {
	s.metrics.algorithmTook.Observe(s.machine.Since(began).Seconds())
}

// cycle filters and scores the nodes. It begins with the memo's evaluation of the pod's signature if there is one.
func (s *Scheduler) cycle(ctx context.Context, t *tracker, a *attempt, began time.Time) decision {
	pod := a.info.pod
	filtered := func() { began = a.stage("filter", began, s.machine.Now()) }
	var e *evaluation
	key, may := s.memoKey(ctx, t, a)
	if may {
		e = s.memo.get(ctx, t, key, s.cluster, pod, filtered)
	}
	if e == nil {
		state := newCycleState()
		state.group, state.alone = a.group, !may
		e = a.profile.evaluate(ctx, t, s.cluster, pod, state, filtered)
		if may {
			s.memo.add(key, e)
		}
	}
	d := a.profile.decide(ctx, t, s.cluster, pod, e, s.random.IntN)
	a.stage("score", began, s.machine.Now())
	d.report(t, a.profile, pod)
	a.state = e.state.forBinding() // a copy: the memo keeps its own
	return d
}

// memoKey returns the key of the pod's evaluation in the memo, and whether the memo may keep it.
func (s *Scheduler) memoKey(ctx context.Context, t *tracker, a *attempt) (memoKey, bool) {
	pod, signature := a.info.pod, a.profile.sign(ctx, t, a.info.pod)
	if signature == "" || pod.Status.NominatedNodeName != "" || s.nominator.node(pod.UID) != "" || !a.profile.local(t, pod, s.cluster) ||
		a.profile.setup.evaluates(pod) {
		return memoKey{}, false
	}
	return memoKey{a.profile, signature, helper.PodPriority(pod)}, true
}

// assume assumes the pod on its node, before the binding is written.
func (s *Scheduler) assume(a *attempt) {
	uid := a.info.pod.UID
	delete(s.queue.pods, uid)
	s.binding[string(uid)] = a.queuedPodInfo
	s.assumeInSnapshot(a)
}

// assumeInSnapshot makes the copy of the pod with its node, and adds it to the snapshot.
func (s *Scheduler) assumeInSnapshot(a *attempt) {
	pod := *a.info.pod
	pod.Spec.NodeName = a.node
	info := *a.info // the snapshot's copy, which newer versions of the pod change while the binding cycle reads a.info
	info.pod = &pod
	a.assumed = &pod
	s.nominator.remove(pod.UID)
	s.cluster.addPod(&info, a.node, true)
	s.groups.assume(&pod)
}

// reserve runs the Reserve and Permit plugins. After a failure it calls Unreserve of all Reserve plugins.
func (s *Scheduler) reserve(ctx context.Context, a *attempt) *framework.Status {
	status := a.profile.runReserve(ctx, a)
	var timeouts map[string]time.Duration
	if status.IsSuccess() {
		status, timeouts = a.profile.runPermit(ctx, a)
	}
	if !status.IsSuccess() && !status.IsWait() {
		a.profile.unreserve(ctx, a)
		return status
	}
	if len(timeouts) > 0 {
		s.waiting.add(newWaitingPod(s.clock, a.assumed, timeouts))
	}
	return nil
}

func (p *profile) runReserve(ctx context.Context, a *attempt) (status *framework.Status) {
	if len(p.reserve) > 0 {
		defer a.ran("Reserve", a.now(), &status)
	}
	for _, plugin := range p.reserve {
		if plugin.passes(a) {
			continue
		}
		measured := a.measure(plugin.site)
		status, failure := call(ctx, plugin.site, plugin.timeouts.cycle, func(ctx context.Context) *framework.Status {
			return plugin.plugin.Reserve(ctx, a.state, a.assumed, a.node)
		})
		measured(failure.or(status))
		if status = plugin.result(status, failure); status != nil {
			return status
		}
	}
	return nil
}

// runPermit runs the Permit plugins. If none rejects the pod and some returned Wait, the status is Wait, with the timeouts of these.
func (p *profile) runPermit(ctx context.Context, a *attempt) (status *framework.Status, timeouts map[string]time.Duration) {
	if len(p.permit) == 0 {
		return nil, nil
	}
	defer a.ran("Permit", a.now(), &status)
	type result struct {
		status  *framework.Status
		timeout time.Duration
	}
	var wait *framework.Status
	timeouts = map[string]time.Duration{}
	for _, plugin := range p.permit {
		measured := a.measure(plugin.site)
		got, failure := call(ctx, plugin.site, plugin.timeouts.cycle, func(ctx context.Context) result {
			status, timeout := plugin.plugin.Permit(ctx, a.state, a.assumed, a.node)
			return result{status, timeout}
		})
		measured(failure.or(got.status))
		if failure == nil && got.status.IsWait() {
			timeouts[plugin.name] = min(got.timeout, maxPermitWait)
			wait = got.status
			continue
		}
		if status := plugin.result(got.status, failure); status != nil {
			return status, nil
		}
	}
	if wait != nil {
		wait = framework.NewStatus(framework.Wait, append(slices.Clone(wait.Reasons()), "one or more plugins asked to wait and no plugin rejected pod")...)
	}
	return wait, timeouts
}

// result returns the status if it ends the pod's attempt, otherwise nil.
func (s *site) result(status *framework.Status, failure *pluginFailure) *framework.Status {
	switch {
	case failure != nil:
		return failure.status()
	case status.IsSuccess():
		return nil
	case status.IsRejected():
		return status.WithPlugin(s.name)
	}
	return s.failed(status)
}

// maxPermitWait bounds the timeouts of Permit plugins.
const maxPermitWait = 15 * time.Minute

// unreserve calls Unreserve of all Reserve plugins in reverse order, and logs failures.
func (p *profile) unreserve(ctx context.Context, a *attempt) {
	if len(p.reserve) > 0 {
		defer a.ran("Unreserve", a.now(), new(*framework.Status))
	}
	for _, plugin := range slices.Backward(p.reserve) {
		if plugin.passes(a) {
			continue
		}
		measured := a.measure(&site{instance: plugin.instance, point: "Unreserve"})
		_, failure := call(ctx, plugin.site, plugin.timeouts.cycle, func(ctx context.Context) struct{} {
			plugin.plugin.Unreserve(ctx, a.state, a.assumed, a.node)
			return struct{}{}
		})
		measured(failure.or(nil))
	}
}

// handleUnschedulable requeues a pod for which the cycle found no node, and records the reason.
func (s *Scheduler) handleUnschedulable(ctx context.Context, a *attempt, d *decision) {
	message := d.message()
	reason, outcome := corev1.PodReasonUnschedulable, "Unschedulable"
	if d.failed() {
		slog.ErrorContext(ctx, "scheduling failed", "pod", podName(a.info.pod), "err", message)
		reason, outcome = corev1.PodReasonSchedulerError, "Error"
	}
	nominating := s.requeueAttempt(a, d)
	s.decisions.unschedulable(a, d, outcome, message)
	s.recordFailure(ctx, a, reason, message, nominating)
}

// failed reports whether the cycle ended with an error.
func (d *decision) failed() bool { return d.status.IsError() && d.nodes > 0 }

// requeueAttempt queues a pod again for which the cycle found no node, and returns the nomination that follows from the attempt.
func (s *Scheduler) requeueAttempt(a *attempt, d *decision) *framework.NominatingInfo {
	now := s.clock.Now()
	if d.failed() {
		s.queue.requeueError(a.queuedPodInfo, now)
	} else {
		blockers, pending := d.rejectors()
		s.queue.requeueUnschedulable(a.queuedPodInfo, s.rejecting(d, blockers), pending, false, now)
	}
	if d.status.IsError() {
		return clearNomination
	}
	return d.nominating
}

// rejecting returns the plugins whose events requeue the pod. Without nodes or plugins it waits for a new node.
func (s *Scheduler) rejecting(d *decision, blockers sets.Set[string]) sets.Set[string] {
	if d.nodes > 0 && len(blockers) > 0 {
		return blockers
	}
	return blockers.Insert(anyNode)
}

// anyNode is the name, among a pod's unschedulable plugins, for the wait for a new node.
const anyNode = ""

// forgetPod removes an assumed pod from its node, and requeues it.
func (s *Scheduler) forgetPod(ctx context.Context, a *attempt, status *framework.Status) {
	pod := a.info.pod
	_, alive := s.binding[string(pod.UID)]
	delete(s.binding, string(pod.UID))
	if p, ok := s.cluster.pods[pod.UID]; ok && !p.assumed {
		return // bound: only the response was lost
	} else if ok {
		s.cluster.removePod(pod.UID)
		s.groups.forget(pod)
	} else {
		alive = false // deleted meanwhile
	}
	now := s.clock.Now()
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}, old: a.assumed}
	missed := s.queue.events != a.events
	s.queue.moveOnEvent(ctx, ev, now) // before the pod is queued: its own event must not requeue it
	if !alive {
		return
	}
	s.refresh(a)
	s.queue.pods[pod.UID] = a.queuedPodInfo
	reason, outcome := corev1.PodReasonSchedulerError, "Error"
	if status.IsRejected() {
		reason, outcome = corev1.PodReasonUnschedulable, "Unschedulable"
		s.queue.requeueUnschedulable(a.queuedPodInfo, sets.New(status.Plugin()), sets.New[string](), missed, now)
	} else {
		slog.ErrorContext(ctx, "binding failed", "pod", podName(pod), "node", a.node, "err", status.Message())
		s.queue.requeueError(a.queuedPodInfo, now)
	}
	s.decisions.failed(a, outcome, status.Message())
	s.recordFailure(ctx, a, reason, status.Message(), clearNomination)
}

// refresh replaces the pod by its newest version after its binding cycle failed.
func (s *Scheduler) refresh(a *attempt) {
	pod, ok := s.caches.Pods().Get(objects.Key{Namespace: a.info.pod.Namespace, Name: a.info.pod.Name})
	if !ok || pod.UID != a.info.pod.UID {
		return
	}
	if info, err := newPodInfo(pod); err == nil {
		a.info, a.revision = info, objects.RevisionOf(pod)
	}
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
