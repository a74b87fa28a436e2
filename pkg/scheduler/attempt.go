package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// attempt is one try to give a pod a node, from the queue to the binding.
type attempt struct {
	*queued
	profile *profile
	state   framework.CycleState
	node    string
	stages  []trace.Stage
	events  uint64      // the queue's count when the decision was made
	assumed *corev1.Pod // as it will be on its node
	handed  time.Time   // to the binding
}

// stage notes that a stage has just ended, and returns now.
func (a *attempt) stage(name string, start, now time.Time) time.Time {
	a.stages = append(a.stages, trace.Stage{Name: name, Start: start, Took: now.Sub(start)})
	return now
}

// attempt tries to give a pod a node. began is when the loop began to take in what had happened.
func (s *Scheduler) attempt(ctx context.Context, p *queued, began time.Time) {
	prof, ok := s.setup.profiles[p.info.pod.Spec.SchedulerName]
	if !ok || p.info.pod.DeletionTimestamp != nil {
		s.skip(ctx, p)
		return
	}
	a := &attempt{queued: p, profile: prof, events: s.queue.events, stages: make([]trace.Stage, 0, 6)}
	now := s.clock.Now()
	a.stage("queue", p.since, now)
	now = a.stage("snapshot", began, now)
	d := s.decide(ctx, a, now)
	if d.status != nil {
		s.turnDown(ctx, a, &d)
		return
	}
	a.node = d.node.node.Name
	if s.decided != nil {
		s.decided(p.info.pod.Name, a.node)
	}
	s.decisions.scheduled(a, &d, len(s.queue.line.pods))
	now = s.clock.Now()
	s.assume(a)
	if status := s.reserve(ctx, a); !status.IsSuccess() {
		s.giveUp(ctx, a, status)
		return
	}
	a.handed = a.stage("reserve", now, s.clock.Now())
	s.bind(ctx, a)
}

// skip drops a pod that needs no node: it is being deleted, or the profile it asked for is gone.
func (s *Scheduler) skip(ctx context.Context, p *queued) {
	pod := p.info.pod
	delete(s.queue.pods, pod.UID)
	if pod.DeletionTimestamp != nil {
		s.recorders.action(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling",
			fmt.Sprintf("skip schedule deleting pod: %v/%v", pod.Namespace, pod.Name))
	}
}

// decide runs the cycle, with what is remembered of the pod's signature when there is something.
func (s *Scheduler) decide(ctx context.Context, a *attempt, began time.Time) decision {
	pod := a.info.pod
	filtered := func() { began = a.stage("filter", began, s.clock.Now()) }
	var e *evaluation
	key, may := s.memoKey(ctx, a)
	if may {
		e = s.memo.recall(ctx, key, s.cluster, pod, filtered)
	}
	if e == nil {
		e = a.profile.evaluate(ctx, s.cluster, pod, filtered)
		if may {
			s.memo.learn(key, e)
		}
	}
	d := a.profile.decide(ctx, s.cluster, pod, e, s.draws.IntN)
	a.stage("score", began, s.clock.Now())
	a.state = e.state.Clone() // what is remembered stays as it is
	return d
}

// memoKey returns what the pod's evaluation is remembered under, and whether it may be.
func (s *Scheduler) memoKey(ctx context.Context, a *attempt) (memoKey, bool) {
	if a.signed != a.profile {
		a.signature, a.signed = a.profile.sign(ctx, a.info.pod), a.profile
	}
	if a.signature == "" || !a.profile.local(a.info.pod, s.cluster) {
		return memoKey{}, false
	}
	return memoKey{a.profile, a.signature}, true
}

// assume puts the pod on its node before the API knows.
func (s *Scheduler) assume(a *attempt) {
	pod := *a.info.pod
	pod.Spec.NodeName = a.node
	info := *a.info // the cluster's own: it takes in newer versions of the pod while the binding reads this one
	info.pod = &pod
	a.assumed = &pod
	delete(s.queue.pods, pod.UID)
	s.binding[string(pod.UID)] = a.queued
	s.cluster.place(&info, a.node, true)
}

// reserve runs the Reserve and Permit plugins. What was reserved is given back when one says no.
func (s *Scheduler) reserve(ctx context.Context, a *attempt) *framework.Status {
	for _, plugin := range a.profile.reserve {
		if status := plugin.Reserve(ctx, a.state, a.assumed, a.node); !status.IsSuccess() {
			a.profile.unreserve(ctx, a)
			if !status.IsRejected() {
				return broken("Reserve", plugin, status)
			}
			return status.WithPlugin(plugin.Name())
		}
	}
	pending := map[string]time.Duration{}
	for _, plugin := range a.profile.permit {
		status, timeout := plugin.Permit(ctx, a.state, a.assumed, a.node)
		switch {
		case status.IsSuccess():
		case status.IsWait():
			pending[plugin.Name()] = min(timeout, maxPermitWait)
		default:
			a.profile.unreserve(ctx, a)
			if !status.IsRejected() {
				return broken("Permit", plugin, status)
			}
			return status.WithPlugin(plugin.Name())
		}
	}
	if len(pending) > 0 {
		s.waiting.add(newWaitingPod(a.assumed, pending))
	}
	return nil
}

// maxPermitWait bounds how long a Permit plugin may make a pod wait.
const maxPermitWait = 15 * time.Minute

// unreserve gives back what Reserve plugins took, in the opposite order.
func (p *profile) unreserve(ctx context.Context, a *attempt) {
	for i := len(p.reserve) - 1; i >= 0; i-- {
		p.reserve[i].Unreserve(ctx, a.state, a.assumed, a.node)
	}
}

// turnDown queues a pod that no node takes, and says so.
func (s *Scheduler) turnDown(ctx context.Context, a *attempt, d *decision) {
	now := s.clock.Now()
	message := d.message()
	reason := corev1.PodReasonUnschedulable
	outcome := "Unschedulable"
	if d.status.IsError() && d.nodes > 0 {
		slog.ErrorContext(ctx, "scheduling broke", "pod", podName(a.info.pod), "err", message)
		reason, outcome = corev1.PodReasonSchedulerError, "Error"
		s.queue.fail(a.queued, now)
	} else {
		blockers, pending := d.blockers()
		s.queue.reject(a.queued, s.everyone(d, blockers), pending, false, now)
	}
	s.decisions.turnedDown(a, d, outcome, message)
	s.tellFailure(ctx, a, reason, message)
}

// everyone returns whose mind must change before a pod is tried again. Without any nodes, that is every plugin that
// waits for one.
func (s *Scheduler) everyone(d *decision, blockers sets.Set[string]) sets.Set[string] {
	if d.nodes > 0 && len(blockers) > 0 {
		return blockers
	}
	return blockers.Insert(newcomer)
}

// newcomer stands among a pod's blockers for the wait for a node that nobody has judged yet.
const newcomer = ""

// giveUp takes a pod off the node that it was assumed to be on, and queues it again.
func (s *Scheduler) giveUp(ctx context.Context, a *attempt, status *framework.Status) {
	pod := a.info.pod
	_, alive := s.binding[string(pod.UID)]
	delete(s.binding, string(pod.UID))
	if p, ok := s.cluster.pods[pod.UID]; ok && !p.assumed {
		return // bound after all: the answer was lost
	} else if ok {
		s.cluster.remove(pod.UID)
	} else {
		alive = false // deleted meanwhile
	}
	now := s.clock.Now()
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}, old: a.assumed}
	missed := s.queue.events != a.events
	s.queue.happened(ctx, ev, now) // before the pod is parked: it must not wake itself
	if !alive {
		return
	}
	s.refresh(a)
	s.queue.pods[pod.UID] = a.queued
	reason, outcome := corev1.PodReasonSchedulerError, "Error"
	if status.IsRejected() {
		reason, outcome = corev1.PodReasonUnschedulable, "Unschedulable"
		s.queue.reject(a.queued, sets.New(status.Plugin()), sets.New[string](), missed, now)
	} else {
		slog.ErrorContext(ctx, "binding failed", "pod", podName(pod), "node", a.node, "err", status.Message())
		s.queue.fail(a.queued, now)
	}
	s.decisions.failed(a, outcome, status.Message())
	s.tellFailure(ctx, a, reason, status.Message())
}

// refresh takes in what has changed of a pod while its binding was under way.
func (s *Scheduler) refresh(a *attempt) {
	pod, ok := s.caches.Pods().Get(objects.Key{Namespace: a.info.pod.Namespace, Name: a.info.pod.Name})
	if !ok || pod.UID != a.info.pod.UID {
		return
	}
	if info, err := newPodInfo(pod); err == nil {
		a.info, a.revision, a.signed = info, revisionOf(pod), nil
	}
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
