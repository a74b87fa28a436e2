package scheduler

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
)

// inbox holds what the loop has yet to take in. Its senders never wait.
type inbox struct {
	mu     sync.Mutex
	notes  []note
	some   atomic.Bool
	signal chan struct{} // holds one when there is something
}

// note is one thing that the loop is to know. do runs in the loop.
type note struct {
	revision uint64
	replay   bool // part of a list: its order means nothing
	do       func(ctx context.Context)
}

func (b *inbox) send(n note) {
	b.mu.Lock()
	b.notes = append(b.notes, n)
	b.some.Store(true)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take empties the inbox. What comes of lists is put in order of revision, so that the same cluster gives the same run.
func (b *inbox) take() []note {
	if !b.some.Load() {
		return nil
	}
	b.mu.Lock()
	notes := b.notes
	b.notes = nil
	b.some.Store(false)
	b.mu.Unlock()
	for from := 0; from < len(notes); {
		to := from
		for to < len(notes) && notes[to].replay == notes[from].replay {
			to++
		}
		if notes[from].replay {
			slices.SortStableFunc(notes[from:to], func(a, b note) int { return int(int64(a.revision - b.revision)) })
		}
		from = to
	}
	return notes
}

// takeIn brings queue and cluster up to date.
func (s *Scheduler) takeIn(ctx context.Context) {
	for _, n := range s.inbox.take() {
		n.do(ctx)
	}
}

// tell puts something into the inbox.
func (s *Scheduler) tell(do func(ctx context.Context)) { s.inbox.send(note{do: do}) }

// nodeChanged and podChanged are called by the caches.
func (s *Scheduler) nodeChanged(ch client.Change[*corev1.Node]) {
	s.inbox.send(note{ch.Revision, ch.Replay, func(ctx context.Context) { s.takeNode(ctx, ch) }})
}

func (s *Scheduler) podChanged(ch client.Change[*corev1.Pod]) {
	n := note{revision: ch.Revision, replay: ch.Replay}
	if !ch.Added() && !ch.Deleted() && ch.Old.UID != ch.New.UID { // deleted and made again in one change
		s.inbox.send(note{ch.Revision, ch.Replay, func(ctx context.Context) { s.podGone(ctx, ch.Old, ch.Revision) }})
	}
	if ch.Deleted() || finished(ch.New) {
		old := ch.Old
		if old == nil {
			old = ch.New
		}
		n.do = func(ctx context.Context) { s.podGone(ctx, old, ch.Revision) }
		s.inbox.send(n)
		return
	}
	info, err := newPodInfo(ch.New) // outside the loop, which has enough to do
	if err != nil {
		slog.Error("pod has an affinity term that cannot be read; the term is ignored", "pod", ch.Key().String(), "err", err)
	}
	n.do = func(ctx context.Context) { s.podSeen(ctx, info, ch.Revision) }
	s.inbox.send(n)
}

// finished reports whether a pod has ended and takes nothing of its node any more.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (s *Scheduler) takeNode(ctx context.Context, ch client.Change[*corev1.Node]) {
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}, revision: ch.Revision}
	switch {
	case ch.Deleted():
		s.cluster.removeNode(ch.Old.Name)
		ev.ActionType, ev.old = framework.Delete, ch.Old
	case ch.Added():
		s.cluster.setNode(ch.New)
		ev.new = ch.New
	default:
		s.cluster.setNode(ch.New)
		ev.ActionType, ev.old, ev.new = nodeChanges(ch.Old, ch.New), ch.Old, ch.New
	}
	if ev.ActionType != framework.None {
		s.queue.happened(ctx, ev, s.clock.Now())
	}
}

// podSeen takes in a pod as the API has it now.
func (s *Scheduler) podSeen(ctx context.Context, info *podInfo, revision uint64) {
	if info.pod.Spec.NodeName != "" {
		s.podPlaced(ctx, info, revision)
		return
	}
	uid := info.pod.UID
	if p, ok := s.queue.pods[uid]; ok {
		s.queue.replace(ctx, p, info, revision, s.clock.Now())
		return
	}
	if placed, ok := s.cluster.pods[uid]; ok && placed.assumed {
		return // its binding is on the way
	}
	if _, ours := s.setup.profiles[info.pod.Spec.SchedulerName]; !ours {
		return
	}
	p := s.queue.add(ctx, info, revision, s.clock.Now())
	if p.gate != "" {
		s.reportGated(p)
	}
}

// podPlaced takes in a pod that has a node.
func (s *Scheduler) podPlaced(ctx context.Context, info *podInfo, revision uint64) {
	s.queue.remove(info.pod.UID)
	old, known := s.cluster.pods[info.pod.UID]
	var before *corev1.Pod
	fresh := !known || old.assumed
	if known {
		before = old.info.pod
	}
	changed := s.cluster.place(info, info.pod.Spec.NodeName, false)
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Add}, new: info.pod, revision: revision}
	if !fresh {
		if !changed {
			return
		}
		ev.ActionType, ev.old = podChanges(before, info.pod), before
	}
	if ev.ActionType != framework.None {
		s.queue.happened(ctx, ev, s.clock.Now())
	}
}

// podGone takes in that a pod was deleted or has ended.
func (s *Scheduler) podGone(ctx context.Context, pod *corev1.Pod, revision uint64) {
	s.queue.remove(pod.UID)
	if w := s.waiting.get(pod.UID); w != nil {
		w.Reject("", "pod has been deleted")
	}
	if p, ok := s.cluster.remove(pod.UID); ok {
		ev := event{framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}, p.info.pod, nil, revision}
		s.queue.happened(ctx, ev, s.clock.Now())
	}
}

// activate puts waiting pods in line at once: a plugin has asked for it through its Handle.
func (s *Scheduler) activate(pods map[string]*corev1.Pod) {
	s.tell(func(ctx context.Context) {
		for _, pod := range pods {
			if p, ok := s.queue.pods[pod.UID]; ok && p.where != active && p.where != out {
				s.queue.enter(ctx, p, s.clock.Now())
			}
		}
	})
}

func revisionOf(pod *corev1.Pod) uint64 {
	rev, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64) // a server's own number
	return rev
}

// reportGated says which plugin keeps a pod from being tried.
func (s *Scheduler) reportGated(p *queued) {
	s.decisions.gated(p, "waiting for scheduler plugin "+p.gate)
}
