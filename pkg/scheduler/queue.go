package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// queue holds the pods that wait for a node: in line, backing off, or parked until something happens that may help
// them. It belongs to the scheduling loop and is not safe for concurrent use.
type queue struct {
	profiles map[string]*profile
	backoff  backoff

	line    line
	resting line
	mending line
	parked  map[string]map[*queued]bool // by what blocks them
	pods    map[types.UID]*queued
	arrived uint64
	events  uint64 // how many there were, to know whether a pod that was away has missed any
}

// backoff is how long a pod rests after failing: first, doubled each time, at most last.
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
	flushEvery = 30 * time.Second
	parkedMost = 5 * time.Minute // after that a parked pod is tried again whatever happened
)

func newQueue(profiles map[string]*profile, b backoff) *queue {
	byExpiry := func(a, b *queued) bool {
		if !a.expires.Equal(b.expires) {
			return a.expires.Before(b.expires)
		}
		return a.number < b.number
	}
	q := &queue{parked: map[string]map[*queued]bool{}, pods: map[types.UID]*queued{}}
	q.resting.less, q.mending.less = byExpiry, byExpiry
	q.configure(profiles, b)
	return q
}

// configure takes new profiles: who is before whom, and what helps whom.
func (q *queue) configure(profiles map[string]*profile, b backoff) {
	q.profiles, q.backoff = profiles, b
	var sorter framework.QueueSortPlugin
	for _, p := range profiles {
		sorter = p.queueSort[0] // the same in all of them
	}
	q.line.reorder(func(a, b *queued) bool {
		if sorter.Less(a, b) {
			return true
		}
		return !sorter.Less(b, a) && a.number < b.number
	})
}

// add puts a pod in line that nobody has tried yet.
func (q *queue) add(ctx context.Context, info *podInfo, revision uint64, now time.Time) *queued {
	q.arrived++
	p := &queued{info: info, revision: revision, number: q.arrived, since: now, blockers: sets.New[string](), pending: sets.New[string]()}
	q.pods[info.pod.UID] = p
	q.enter(ctx, p, now)
	return p
}

// enter puts a pod in line if no PreEnqueue plugin is against it, and else parks it.
func (q *queue) enter(ctx context.Context, p *queued, now time.Time) {
	q.leave(p)
	p.gate = ""
	if prof := q.profiles[p.info.pod.Spec.SchedulerName]; prof != nil {
		for _, plugin := range prof.preEnqueue {
			if status := plugin.PreEnqueue(ctx, p.info.pod); !status.IsSuccess() {
				p.gate = plugin.Name()
				p.blockers = sets.New(p.gate)
				q.park(p, now)
				return
			}
		}
	}
	p.since, p.where = now, active
	q.line.push(p)
}

// leave takes a pod out of where it is.
func (q *queue) leave(p *queued) {
	switch p.where {
	case active:
		q.line.remove(p)
	case resting:
		q.resting.remove(p)
	case mending:
		q.mending.remove(p)
	case parked:
		delete(q.parked[p.bucket], p)
		if len(q.parked[p.bucket]) == 0 {
			delete(q.parked, p.bucket)
		}
	}
	p.where = out
}

// earlyTries bounds how often a pod that was turned down is tried before its back-off has ended. Without a bound, pods
// whose failing is an event to each other would never rest.
const earlyTries = 3

// pop returns the next pod to try, nil when there is none. When nobody is in line, one that only rests because it was
// turned down is tried early, the first few times.
func (q *queue) pop(ctx context.Context, now time.Time) *queued {
	for _, l := range []*line{&q.mending, &q.resting} {
		for p := l.peek(); p != nil && !p.expires.After(now); p = l.peek() {
			q.enter(ctx, p, now)
		}
	}
	for p := q.resting.peek(); q.line.peek() == nil && p != nil && p.rejections <= earlyTries; p = q.resting.peek() {
		q.enter(ctx, p, now)
	}
	p := q.line.peek()
	if p == nil {
		return nil
	}
	q.leave(p)
	p.attempts++
	if p.first.IsZero() {
		p.first = now
	}
	return p
}

// next returns when a pod will be due although nothing happens; zero: never.
func (q *queue) next() time.Time {
	var first time.Time
	for _, l := range []*line{&q.mending, &q.resting} {
		if p := l.peek(); p != nil && (first.IsZero() || p.expires.Before(first)) {
			first = p.expires
		}
	}
	return first
}

// reject parks a pod that was turned down by the plugins in blockers, or only asked to wait by those in pending. Where
// nobody can say what would help, or where events have passed since the pod was decided upon, it is tried again after
// its back-off.
func (q *queue) reject(p *queued, blockers, pending sets.Set[string], missed bool, now time.Time) {
	p.rejections++
	p.errors = 0
	p.blockers, p.pending = blockers, pending
	p.expires = now.Add(q.backoff.after(p.rejections))
	if missed || len(blockers)+len(pending) == 0 {
		p.where, p.since = resting, now
		q.resting.push(p)
		return
	}
	q.park(p, now)
}

// fail makes a pod whose attempt broke try again after a back-off.
func (q *queue) fail(p *queued, now time.Time) {
	p.errors++
	p.expires = now.Add(q.backoff.after(p.errors))
	p.where, p.since = mending, now
	q.mending.push(p)
}

func (q *queue) park(p *queued, now time.Time) {
	p.bucket = p.info.pod.Spec.SchedulerName + "\x00" + strings.Join(sets.List(p.blockers.Union(p.pending)), ",")
	if q.parked[p.bucket] == nil {
		q.parked[p.bucket] = map[*queued]bool{}
	}
	q.parked[p.bucket][p] = true
	p.where, p.since = parked, now
}

// remove forgets a pod.
func (q *queue) remove(uid types.UID) {
	if p, ok := q.pods[uid]; ok {
		q.leave(p)
		delete(q.pods, uid)
	}
}

// replace takes a newer version of a waiting pod, and wakes it if what changed may help it.
func (q *queue) replace(ctx context.Context, p *queued, info *podInfo, revision uint64, now time.Time) {
	old := p.info.pod
	p.info, p.revision, p.signed = info, revision, nil
	switch p.where {
	case active:
		q.line.fix(p)
	case parked:
		action := podChanges(old, info.pod)
		if action == framework.None {
			return
		}
		ev := event{framework.ClusterEvent{Resource: framework.Pod, ActionType: action}, old, info.pod, revision}
		if worth, pending := q.helps(p, ev); worth {
			q.wake(ctx, p, ev, pending, now)
		}
	}
}

// event is something that happened in the cluster: to which object, nil when it came or went.
type event struct {
	framework.ClusterEvent
	old, new any
	revision uint64
}

// happened wakes the parked pods that the event may help.
func (q *queue) happened(ctx context.Context, ev event, now time.Time) {
	q.events++
	var woken []*queued
	immediate := map[*queued]bool{}
	for _, pods := range q.parked {
		if !q.concerns(pods, ev) {
			continue
		}
		for p := range pods {
			if worth, pending := q.helps(p, ev); worth {
				woken = append(woken, p)
				immediate[p] = pending
			}
		}
	}
	slices.SortFunc(woken, func(a, b *queued) int { return int(a.number) - int(b.number) })
	for _, p := range woken {
		q.wake(ctx, p, ev, immediate[p], now)
	}
}

// wake moves a parked pod to where it is tried again: in line, or resting if its back-off has not ended. What was only
// pending does not back off.
func (q *queue) wake(ctx context.Context, p *queued, ev event, pending bool, now time.Time) {
	p.woken = ev.revision
	if p.gate == "" && !pending && p.expires.After(now) {
		q.leave(p)
		p.where, p.since = resting, now
		q.resting.push(p)
		return
	}
	q.enter(ctx, p, now)
}

// concerns reports whether any plugin that blocks these pods, who all have the same, wants to hear of the event.
func (q *queue) concerns(pods map[*queued]bool, ev event) bool {
	for p := range pods {
		prof := q.profiles[p.info.pod.Spec.SchedulerName]
		if prof == nil {
			return false
		}
		for name := range p.blockers.Union(p.pending) {
			for _, h := range prof.hintsOf(name) {
				if covers(h.Event, ev.ClusterEvent) {
					return true
				}
			}
		}
		return false
	}
	return false
}

// helps asks the plugins that block a pod whether the event may change their mind. pending tells that one of them only
// waits.
func (q *queue) helps(p *queued, ev event) (worth, pending bool) {
	prof := q.profiles[p.info.pod.Spec.SchedulerName]
	if prof == nil {
		return false, false
	}
	for name := range p.pending {
		if prof.helps(name, p.info.pod, ev) {
			return true, true
		}
	}
	for name := range p.blockers {
		if prof.helps(name, p.info.pod, ev) {
			return true, false
		}
	}
	return false, false
}

// helps asks one plugin.
func (p *profile) helps(plugin string, pod *corev1.Pod, ev event) bool {
	for _, h := range p.hintsOf(plugin) {
		if !covers(h.Event, ev.ClusterEvent) {
			continue
		}
		if h.QueueingHintFn == nil {
			return true
		}
		hint, err := h.QueueingHintFn(klog.Logger{}, pod, ev.old, ev.new)
		if err != nil || hint == framework.Queue {
			return true // a hint that breaks must not leave the pod parked
		}
	}
	return false
}

// A pod that no plugin judged, since there was no node or its plugin is missing, waits for a node.
var newNode = []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}}}

// anything is what a plugin wants to hear of that the profile no longer has.
var anything = []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.WildCard, ActionType: framework.All}}}

func (p *profile) hintsOf(plugin string) []framework.ClusterEventWithHint {
	if plugin == newcomer {
		return newNode
	}
	if h, ok := p.hints[plugin]; ok {
		return h
	}
	return anything
}

func covers(want, got framework.ClusterEvent) bool {
	return got.Resource == framework.WildCard ||
		(want.Resource == framework.WildCard || want.Resource == got.Resource) && want.ActionType&got.ActionType != 0
}

// flush tries pods again that have been parked for too long.
func (q *queue) flush(ctx context.Context, now time.Time) {
	var old []*queued
	for _, pods := range q.parked {
		for p := range pods {
			if now.Sub(p.since) > parkedMost {
				old = append(old, p)
			}
		}
	}
	slices.SortFunc(old, func(a, b *queued) int { return int(a.number) - int(b.number) })
	for _, p := range old {
		q.wake(ctx, p, event{}, false, now)
	}
}
