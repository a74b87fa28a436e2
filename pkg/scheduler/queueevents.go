package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// event is a cluster event: old is nil when the object was added, new when it was deleted.
type event struct {
	framework.ClusterEvent
	old, new any
	revision uint64
}

// object returns the name of the object, with its namespace if it has one; "" for an event about no object.
func (e event) object() string {
	for _, obj := range []any{e.new, e.old} {
		m, err := meta.Accessor(obj)
		switch {
		case err != nil || m == nil:
		case m.GetNamespace() == "":
			return m.GetName()
		default:
			return m.GetNamespace() + "/" + m.GetName()
		}
	}
	return ""
}

// name returns Kubernetes' name of the event. The names of several actions at once, which have none there, are separated by "|".
func (e event) name() string {
	if e.CustomLabel != "" || e.ActionType.String() != "" {
		return e.Label()
	}
	var names []string
	for bit := framework.ActionType(1); bit <= e.ActionType; bit <<= 1 {
		if name := (e.ActionType & bit).String(); name != "" {
			names = append(names, name)
		}
	}
	return string(e.Resource) + strings.Join(names, "|")
}

// Labels, in metrics, of what moves pods between queues besides events of objects.
const (
	unscheduledPodAdd      = "UnschedulablePodAdd"
	scheduleAttemptFailure = "ScheduleAttemptFailure"
	backoffComplete        = "BackoffComplete"
	popFromBackoffQ        = "PopFromBackoffQ"
	forceActivate          = "ForceActivate"
)

// label returns the label of the event in metrics: that of the first of several actions at once.
func (e event) label() string {
	action := e.ActionType
	if action.String() == "" {
		action &= -action
	}
	return framework.ClusterEvent{Resource: e.labeledResource(), ActionType: action, CustomLabel: e.CustomLabel}.Label()
}

// labeledResource returns the resource of the event in metrics. As in Kubernetes, events of pods are of assigned or unscheduled ones, and the removal
// of a pod's nomination is one of an assigned pod.
func (e event) labeledResource() framework.EventResource {
	if e.Resource != framework.Pod {
		return e.Resource
	}
	if pod, ok := e.new.(*corev1.Pod); ok && pod != nil && pod.Spec.NodeName == "" {
		return unscheduledPod
	}
	return assignedPodEvent
}

// moveOnEvent requeues the unschedulable pods that the event may make schedulable.
func (q *queue) moveOnEvent(ctx context.Context, ev event, now time.Time) {
	q.events++
	var candidates []*queuedPodInfo
	for _, pods := range q.unschedulable {
		if q.registered(pods, ev) {
			candidates = slices.AppendSeq(candidates, maps.Keys(pods))
		}
	}
	slices.SortFunc(candidates, byArrival)
	q.requeueOnEvent(ctx, candidates, ev, now)
}

func byArrival(a, b *queuedPodInfo) int { return cmp.Compare(a.arrival, b.arrival) }

// requeueOnEvent calls the plugins' QueueingHints for each pod, and requeues the pods for which one returns Queue. A
// failed hint counts as Queue, so that no pod is left behind.
func (q *queue) requeueOnEvent(ctx context.Context, pods []*queuedPodInfo, ev event, now time.Time) {
	cooperative := !slices.ContainsFunc(pods, func(p *queuedPodInfo) bool {
		prof := q.profiles[p.info.pod.Spec.SchedulerName]
		return prof != nil && !prof.cooperative
	})
	if len(pods) == 0 {
		return
	}
	label := ev.label()
	for first := 0; first < len(pods); {
		hints := make([]hint, 0, len(pods)-first)
		failure := q.calls.do(ctx, cooperative, func(_ context.Context, t *tracker) {
			for _, p := range pods[first:] {
				hints = append(hints, q.isWorthRequeuing(t, p, ev, label))
			}
		})
		if failure != nil {
			hints = append(hints, hint{move: queueAfterBackoff})
		}
		for i, h := range hints {
			q.requeue(ctx, pods[first+i], ev, h, now)
		}
		first += len(hints)
	}
}

// hint is how an event moves a pod, and the plugin that had rejected it; "" if none had.
type hint struct {
	move   move
	plugin string
}

// move is where an event moves a pod.
type move int

const (
	queueSkip move = iota
	queueAfterBackoff
	queueImmediately // the plugin had returned Pending: no backoff
)

// requeue moves an unschedulable pod according to the hint.
func (q *queue) requeue(ctx context.Context, p *queuedPodInfo, ev event, h hint, now time.Time) {
	if h.move == queueSkip {
		return
	}
	p.cause, p.wokenBy = ev.revision, &minikctl.Waking{Event: ev.name(), Object: ev.object(), Plugin: h.plugin}
	if p.gatingPlugin == "" && h.move != queueImmediately && p.backoffUntil.After(now) {
		q.detach(ctx, p)
		q.backOff(p, ev.label(), now)
		return
	}
	q.moveToActiveQ(ctx, p, ev.label(), now)
}

// registered reports whether a plugin that rejected this group of pods registered for the event.
func (q *queue) registered(pods map[*queuedPodInfo]bool, ev event) bool {
	for p := range pods {
		prof := q.profiles[p.info.pod.Spec.SchedulerName]
		if prof == nil {
			return false
		}
		for _, name := range p.waitsFor {
			for _, h := range prof.eventsOf(name) {
				if eventMatches(h.Event, ev.ClusterEvent) {
					return true
				}
			}
		}
		return false
	}
	return false
}

// isWorthRequeuing returns how an event moves a pod. label is that of the event in metrics.
func (q *queue) isWorthRequeuing(t *tracker, p *queuedPodInfo, ev event, label string) hint {
	prof := q.profiles[p.info.pod.Spec.SchedulerName]
	if prof == nil {
		return hint{}
	}
	for _, pending := range []bool{true, false} {
		for _, name := range p.waitsFor {
			switch {
			case p.pendingPlugins.Has(name) != pending || !q.hint(t, prof, name, p.info.pod, ev, label):
			case pending:
				return hint{queueImmediately, name}
			default:
				return hint{queueAfterBackoff, name}
			}
		}
	}
	return hint{}
}

// hint reports whether a plugin's QueueingHint for the event is Queue.
func (q *queue) hint(t *tracker, prof *profile, plugin string, pod *corev1.Pod, ev event, label string) bool {
	for _, h := range prof.eventsOf(plugin) {
		if !eventMatches(h.Event, ev.ClusterEvent) {
			continue
		}
		if h.QueueingHintFn == nil || h.hung.Load() > 0 {
			return true
		}
		t.enter(h.site)
		began := wallClock.Now()
		hint, err := h.QueueingHintFn(klog.Logger{}, pod, ev.old, ev.new)
		q.hinted(plugin, label, hint, err, wallClock.Since(began))
		t.leave()
		if err != nil || hint == framework.Queue {
			return true
		}
	}
	return false
}

// nodeAdded is the event for pods that no plugin rejected: there was no node, or their plugin is missing.
var nodeAdded = []registeredEvent{{nil, framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}}}}

// anyEvent is the event for pods whose plugin is no longer in the profile.
var anyEvent = []registeredEvent{{nil, framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}}}}

// eventsOf returns the events that a plugin registered for.
func (p *profile) eventsOf(plugin string) []registeredEvent {
	if plugin == anyNode {
		return nodeAdded
	}
	if h, ok := p.events[plugin]; ok {
		return h
	}
	return anyEvent
}

// eventMatches reports whether an event is one of those that a plugin registered for.
func eventMatches(registered, ev framework.ClusterEvent) bool {
	return ev.Resource == framework.WildCard ||
		(registered.Resource == framework.WildCard || registered.Resource == ev.Resource || registered.Resource == framework.Pod && ev.Resource == unscheduledPod) && registered.ActionType&ev.ActionType != 0
}
