package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// queue is the scheduling queue. As in Kubernetes, activeQ has the pods to try now, backoffQ and errorBackoffQ those to
// try when their backoff ends, and unschedulable those that wait for an event that may make them schedulable. A popped
// pod is in flight and in none of them. The queue belongs to the scheduling loop and is not safe for concurrent use.
type queue struct {
	calls    *cycleCalls
	profiles map[string]*profile
	backoff  backoff
	sorter   *extension[framework.QueueSortPlugin] // nil: it failed; sorted by priority and arrival
	failed   func(context.Context, *queuedPodInfo, *pluginFailure)
	gated    func(*queuedPodInfo) // called when a plugin gates a pod, and when its reason changes

	// The fields below record metrics: a pod that entered a queue because of an event, the call of a QueueingHint, and the run of the PreEnqueue plugins.
	enqueued func(queue, event string)
	hinted   func(plugin, event string, hint framework.QueueingHint, err error, took time.Duration)
	gateRan  func(point string, status *framework.Status, profile string, took time.Duration)

	activeQ       podHeap
	backoffQ      podHeap                            // pods that were unschedulable
	errorBackoffQ podHeap                            // pods whose attempt ended with an error
	unschedulable map[string]map[*queuedPodInfo]bool // by profile and plugins: pods of a group wait for the same events
	pods          map[types.UID]*queuedPodInfo
	arrivals      uint64
	events        uint64 // the number of events so far
}

// backoff is the pause after failed attempts: it begins with first, doubles with each failure, and is at most
// last.
type backoff struct{ first, last time.Duration }

var defaultBackoff = backoff{time.Second, 10 * time.Second}

func (b backoff) after(failures int) time.Duration {
	d := b.first
	for i := 1; i < failures && d < b.last; i++ {
		d *= 2
	}
	return min(d, b.last)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

const (
	flushEvery       = 30 * time.Second
	maxUnschedulable = 5 * time.Minute // a pod that is unschedulable for longer is tried again without an event
)

func newQueue(calls *cycleCalls, profiles map[string]*profile, b backoff) *queue {
	byExpiry := func(a, b *queuedPodInfo) bool {
		if !a.backoffUntil.Equal(b.backoffUntil) {
			return a.backoffUntil.Before(b.backoffUntil)
		}
		return a.arrival < b.arrival
	}
	q := &queue{calls: calls, unschedulable: map[string]map[*queuedPodInfo]bool{}, pods: map[types.UID]*queuedPodInfo{}}
	q.failed, q.gated = func(context.Context, *queuedPodInfo, *pluginFailure) {}, func(*queuedPodInfo) {}
	q.enqueued, q.hinted = func(_, _ string) {}, func(string, string, framework.QueueingHint, error, time.Duration) {}
	q.gateRan = func(string, *framework.Status, string, time.Duration) {}
	q.backoffQ.less, q.errorBackoffQ.less = byExpiry, byExpiry
	q.profiles, q.backoff, q.sorter = profiles, b, sorterOf(profiles)
	return q
}

// configure replaces the profiles and sorts the activeQ again.
func (q *queue) configure(ctx context.Context, profiles map[string]*profile, b backoff) {
	q.profiles, q.backoff, q.sorter = profiles, b, sorterOf(profiles)
	for _, p := range q.activeQ.pods {
		p.sortKey = nil
	}
	q.sortActive(ctx, func(*activeOrder) { q.activeQ.init() })
}

// add adds a new pod.
func (q *queue) add(ctx context.Context, info *podInfo, revision uint64, now time.Time) *queuedPodInfo {
	q.arrivals++
	p := &queuedPodInfo{info: info, revision: revision, arrival: q.arrivals, timestamp: now, unschedulablePlugins: sets.New[string](), pendingPlugins: sets.New[string]()}
	q.pods[info.pod.UID] = p
	q.moveToActiveQ(ctx, p, unscheduledPodAdd, now)
	return p
}

// moveToActiveQ moves a pod to the activeQ because of an event, or to unschedulable if a PreEnqueue plugin gates it.
func (q *queue) moveToActiveQ(ctx context.Context, p *queuedPodInfo, event string, now time.Time) {
	before := p.location
	q.detach(ctx, p)
	gate, message, failure := q.gate(ctx, p)
	changed := gate != p.gatingPlugin || message != p.gatingMessage
	p.gatingPlugin, p.gatingMessage = gate, message
	switch {
	case failure != nil:
		q.backOffError(p, event, now)
		q.failed(ctx, p, failure)
	case gate != "":
		p.unschedulablePlugins = sets.New(gate)
		q.addUnschedulable(p, now)
		if before != inUnschedulable {
			q.enqueued("unschedulable", event)
		}
		if changed {
			q.gated(p)
		}
	default:
		p.timestamp, p.location, p.sortKey = now, inActiveQ, nil
		if p.activated.IsZero() {
			p.activated = now
		}
		q.enqueued("active", event)
		q.activeQ.add(p)
		q.sortActive(ctx, func(*activeOrder) { q.activeQ.fix(p.index) })
	}
}

// gate returns the first PreEnqueue plugin that gates the pod, and its message.
func (q *queue) gate(ctx context.Context, p *queuedPodInfo) (plugin, message string, failure *pluginFailure) {
	prof := q.profiles[p.info.pod.Spec.SchedulerName]
	if prof == nil || len(prof.preEnqueue) == 0 {
		return "", "", nil
	}
	began := wallClock.Now()
	var status *framework.Status
	failure = q.calls.do(ctx, prof.gatesCooperative, func(ctx context.Context, t *tracker) {
		for _, x := range prof.preEnqueue {
			t.enter(x.site)
			status = x.plugin.PreEnqueue(ctx, p.info.pod)
			t.leave()
			if !status.IsSuccess() {
				plugin, message = x.name, status.Message()
				return
			}
		}
	})
	if failure == nil {
		q.gateRan("PreEnqueue", status, prof.name, wallClock.Since(began))
	}
	return plugin, message, failure
}

// detach takes a pod out of its queue.
func (q *queue) detach(ctx context.Context, p *queuedPodInfo) {
	switch p.location {
	case inActiveQ:
		i := q.activeQ.drop(p)
		q.sortActive(ctx, func(*activeOrder) { q.activeQ.fix(i) })
	case inBackoffQ:
		q.backoffQ.remove(p)
	case inErrorBackoffQ:
		q.errorBackoffQ.remove(p)
	case inUnschedulable:
		delete(q.unschedulable[p.group], p)
		if len(q.unschedulable[p.group]) == 0 {
			delete(q.unschedulable, p.group)
		}
	}
	p.location = inFlight
}

// maxTriesDuringBackoff bounds how often an unschedulable pod is tried before its backoff ends. Without the bound, pods whose
// failures are events for each other would be tried endlessly.
const maxTriesDuringBackoff = 3

// pop returns the next pod to try, nil when there is none. While the activeQ is empty it takes pods of the backoffQ before
// their backoff ends, each at most maxTriesDuringBackoff times.
func (q *queue) pop(ctx context.Context, now time.Time) *queuedPodInfo {
	for _, h := range []*podHeap{&q.errorBackoffQ, &q.backoffQ} {
		for p := h.peek(); p != nil && !p.backoffUntil.After(now); p = h.peek() {
			q.moveToActiveQ(ctx, p, backoffComplete, now)
		}
	}
	for p := q.backoffQ.peek(); q.activeQ.peek() == nil && p != nil && p.unschedulableCount <= maxTriesDuringBackoff; p = q.backoffQ.peek() {
		q.moveToActiveQ(ctx, p, popFromBackoffQ, now)
	}
	p := q.first(ctx)
	if p != nil {
		q.take(ctx, p, now)
	}
	return p
}

// take takes a pod out of its queue for an attempt.
func (q *queue) take(ctx context.Context, p *queuedPodInfo, now time.Time) {
	q.detach(ctx, p)
	p.attempts++
	if p.firstAttempt.IsZero() {
		p.firstAttempt = now
	}
}

// next returns when the first backoff ends; zero when no pod backs off.
func (q *queue) next() time.Time {
	var first time.Time
	for _, h := range []*podHeap{&q.errorBackoffQ, &q.backoffQ} {
		if p := h.peek(); p != nil && (first.IsZero() || p.backoffUntil.Before(first)) {
			first = p.backoffUntil
		}
	}
	return first
}

// requeueUnschedulable queues a pod that the plugins in rejecting rejected, or for which those in pending returned
// Pending. It waits for an event that they registered for; or for its backoff alone, if there are no such plugins or
// events were missed while the pod was in flight.
func (q *queue) requeueUnschedulable(p *queuedPodInfo, rejecting, pending sets.Set[string], missed bool, now time.Time) {
	p.unschedulableCount++
	p.errorCount = 0
	p.unschedulablePlugins, p.pendingPlugins = rejecting, pending
	p.backoffUntil, p.flushed = now.Add(q.backoff.after(p.unschedulableCount)), false
	if missed || len(rejecting)+len(pending) == 0 {
		q.backOff(p, scheduleAttemptFailure, now)
		return
	}
	q.addUnschedulable(p, now)
	q.enqueued("unschedulable", scheduleAttemptFailure)
}

// requeueError queues a pod whose attempt ended with an error.
func (q *queue) requeueError(p *queuedPodInfo, now time.Time) {
	p.flushed = false
	q.backOffError(p, scheduleAttemptFailure, now)
}

// backOff adds a pod to the backoffQ because of an event.
func (q *queue) backOff(p *queuedPodInfo, event string, now time.Time) {
	p.location, p.timestamp = inBackoffQ, now
	q.backoffQ.push(p)
	q.enqueued("backoff", event)
}

// backOffError adds a pod to the errorBackoffQ because of an event.
func (q *queue) backOffError(p *queuedPodInfo, event string, now time.Time) {
	p.errorCount++
	p.backoffUntil = now.Add(q.backoff.after(p.errorCount))
	p.location, p.timestamp = inErrorBackoffQ, now
	q.errorBackoffQ.push(p)
	q.enqueued("backoff", event)
}

func (q *queue) addUnschedulable(p *queuedPodInfo, now time.Time) {
	p.waitsFor = sets.List(p.unschedulablePlugins.Union(p.pendingPlugins))
	p.group = p.info.pod.Spec.SchedulerName + "\x00" + strings.Join(p.waitsFor, ",")
	if q.unschedulable[p.group] == nil {
		q.unschedulable[p.group] = map[*queuedPodInfo]bool{}
	}
	q.unschedulable[p.group][p] = true
	p.location, p.timestamp = inUnschedulable, now
}

// remove removes a pod.
func (q *queue) remove(ctx context.Context, uid types.UID) {
	if p, ok := q.pods[uid]; ok {
		q.detach(ctx, p)
		delete(q.pods, uid)
	}
}

// update replaces a pod by a newer version, and requeues it if the change may make it schedulable.
func (q *queue) update(ctx context.Context, p *queuedPodInfo, info *podInfo, revision uint64, now time.Time) {
	old := p.info.pod
	p.info, p.revision = info, revision
	switch p.location {
	case inActiveQ:
		p.sortKey = nil
		q.sortActive(ctx, func(*activeOrder) { q.activeQ.fix(p.index) })
	case inUnschedulable:
		action := podChanges(old, info.pod)
		if action == framework.None {
			return
		}
		ev := event{framework.ClusterEvent{Resource: framework.Pod, ActionType: action}, old, info.pod, revision}
		q.requeueOnEvent(ctx, []*queuedPodInfo{p}, ev, now)
	}
}

// flushUnschedulable requeues pods that have been unschedulable for too long.
func (q *queue) flushUnschedulable(ctx context.Context, now time.Time) {
	var old []*queuedPodInfo
	for _, pods := range q.unschedulable {
		for p := range pods {
			if now.Sub(p.timestamp) > maxUnschedulable {
				old = append(old, p)
			}
		}
	}
	slices.SortFunc(old, byArrival)
	for _, p := range old {
		p.flushed = true
		q.requeue(ctx, p, event{ClusterEvent: framework.ClusterEvent{CustomLabel: "UnschedulableTimeout"}}, hint{move: queueAfterBackoff}, now)
	}
}
