package scheduler

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// inbox holds the changes that the loop has not applied yet. Sending never blocks.
type inbox struct {
	mu       sync.Mutex
	changes  []clusterChange
	nonEmpty atomic.Bool
	signal   chan struct{} // has a value while the inbox is not empty
}

// clusterChange is a change that the loop applies. do runs in the loop.
type clusterChange struct {
	revision uint64
	replay   bool // from a list, in which the order has no meaning
	do       func(ctx context.Context)
}

func (b *inbox) send(n clusterChange) {
	b.mu.Lock()
	b.changes = append(b.changes, n)
	b.nonEmpty.Store(true)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take empties the inbox. Changes from lists are sorted by revision, so that runs on equal clusters are equal.
func (b *inbox) take() []clusterChange {
	if !b.nonEmpty.Load() {
		return nil
	}
	b.mu.Lock()
	changes := b.changes
	b.changes = nil
	b.nonEmpty.Store(false)
	b.mu.Unlock()
	for from := 0; from < len(changes); {
		to := from
		for to < len(changes) && changes[to].replay == changes[from].replay {
			to++
		}
		if changes[from].replay {
			slices.SortStableFunc(changes[from:to], func(a, b clusterChange) int { return int(int64(a.revision - b.revision)) })
		}
		from = to
	}
	return changes
}

// drainInbox applies all changes to the queue and the snapshot.
func (s *Scheduler) drainInbox(ctx context.Context) {
	for _, n := range s.inbox.take() {
		n.do(ctx)
	}
}

// post adds a change to the inbox.
func (s *Scheduler) post(do func(ctx context.Context)) { s.inbox.send(clusterChange{do: do}) }

// Release frees memory that only a busy scheduler needs. The next attempts evaluate all nodes.
func (s *Scheduler) Release() {
	s.post(func(context.Context) {
		s.memo = newMemo()
		s.cluster.forgetChanges()
	})
}

// nodeChanged and podChanged are the caches' event handlers.
func (s *Scheduler) nodeChanged(ch client.Change[*corev1.Node]) {
	s.inbox.send(clusterChange{ch.Revision, ch.Replay, func(ctx context.Context) { s.applyNode(ctx, ch) }})
}

func (s *Scheduler) podChanged(ch client.Change[*corev1.Pod]) {
	n := clusterChange{revision: ch.Revision, replay: ch.Replay}
	if !ch.Added() && !ch.Deleted() && ch.Old.UID != ch.New.UID { // deleted and recreated in one change
		s.inbox.send(clusterChange{ch.Revision, ch.Replay, func(ctx context.Context) { s.applyDeletedPod(ctx, ch.Old, ch.Revision) }})
	}
	if ch.Deleted() || finished(ch.New) {
		old := ch.Old
		if old == nil {
			old = ch.New
		}
		n.do = func(ctx context.Context) { s.applyDeletedPod(ctx, old, ch.Revision) }
		s.inbox.send(n)
		return
	}
	info, err := newPodInfo(ch.New) // computed here to relieve the loop
	if err != nil {
		slog.Error("pod has an affinity term that cannot be read; the term is ignored", "pod", ch.Key().String(), "err", err)
	}
	n.do = func(ctx context.Context) { s.applyPod(ctx, info, ch.Revision) }
	s.inbox.send(n)
}

// finished reports whether a pod has ended and uses no resources of its node.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (s *Scheduler) applyNode(ctx context.Context, ch client.Change[*corev1.Node]) {
	began := s.machine.Now()
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
		s.queue.moveOnEvent(ctx, ev, s.clock.Now())
		s.handled(ev, began)
	}
}

// handled records how long the loop took to apply an event.
func (s *Scheduler) handled(ev event, began time.Time) {
	took := s.machine.Since(began).Seconds()
	of := framework.ClusterEvent{Resource: ev.labeledResource(), ActionType: ev.ActionType}
	if ev.ActionType.String() != "" {
		s.metrics.eventTook(of).Observe(took)
		return
	}
	for left := ev.ActionType; left != 0; left &= left - 1 {
		of.ActionType = left & -left
		s.metrics.eventTook(of).Observe(took)
	}
}

// applyPod applies a new version of a pod.
func (s *Scheduler) applyPod(ctx context.Context, info *podInfo, revision uint64) {
	if info.pod.Spec.NodeName != "" {
		s.applyBoundPod(ctx, info, revision)
		return
	}
	began, uid := s.machine.Now(), info.pod.UID
	if p, ok := s.queue.pods[uid]; ok {
		old := p.info.pod
		s.groups.set(info.pod)
		s.nominator.update(old, info)
		s.queue.update(ctx, p, info, revision, s.clock.Now())
		if old.Status.NominatedNodeName != "" && old.Status.NominatedNodeName != info.pod.Status.NominatedNodeName {
			s.requeueAfterPodRemoval(ctx, old, revision)
		}
		s.handled(event{ClusterEvent: framework.ClusterEvent{Resource: unscheduledPod, ActionType: framework.Update}}, began)
		return
	}
	if p, ok := s.cluster.pods[uid]; ok && p.assumed {
		s.groups.set(info.pod)
		return // its binding cycle is running
	}
	if _, ours := s.setup.profiles[info.pod.Spec.SchedulerName]; !ours {
		return
	}
	s.nominator.add(info, nil)
	s.groups.set(info.pod)
	s.queue.add(ctx, info, revision, s.clock.Now())
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: unscheduledPod, ActionType: framework.Add}, new: info.pod, revision: revision}
	if _, grouped := podref.PodGroup(info.pod); grouped && s.features.GangScheduling { // other pods of the group may wait for it
		s.queue.moveOnEvent(ctx, ev, s.clock.Now())
	}
	s.handled(ev, began)
}

// unscheduledPod is the resource, in events, of pods without a node, and assignedPodEvent the one, in metrics, of pods with a node. Plugins register for
// framework.Pod.
const (
	unscheduledPod   framework.EventResource = "UnschedulablePod"
	assignedPodEvent framework.EventResource = "AssignedPod"
)

// applyBoundPod applies a new version of a pod that is bound.
func (s *Scheduler) applyBoundPod(ctx context.Context, info *podInfo, revision uint64) {
	began := s.machine.Now()
	s.queue.remove(ctx, info.pod.UID)
	s.nominator.remove(info.pod.UID)
	old, known := s.cluster.pods[info.pod.UID]
	var before *corev1.Pod
	fresh := !known || old.assumed
	if known {
		before = old.info.pod
	}
	s.groups.set(info.pod)
	changed := s.cluster.addPod(info, info.pod.Spec.NodeName, false)
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Add}, new: info.pod, revision: revision}
	if !fresh {
		if !changed {
			return
		}
		ev.ActionType, ev.old = podChanges(before, info.pod), before
	}
	if ev.ActionType != framework.None {
		s.queue.moveOnEvent(ctx, ev, s.clock.Now())
		s.handled(ev, began)
	}
}

// applyDeletedPod removes a pod that was deleted or has ended.
func (s *Scheduler) applyDeletedPod(ctx context.Context, pod *corev1.Pod, revision uint64) {
	began := s.machine.Now()
	ev := event{ClusterEvent: framework.ClusterEvent{Resource: unscheduledPod, ActionType: framework.Delete}}
	s.queue.remove(ctx, pod.UID)
	s.groups.remove(pod)
	if w := s.waiting.get(pod.UID); w != nil {
		w.Reject("", "pod has been deleted")
	}
	nominated := s.nominator.remove(pod.UID)
	if p, ok := s.cluster.removePod(pod.UID); ok {
		ev.Resource = framework.Pod
		s.requeueAfterPodRemoval(ctx, p.info.pod, revision)
	} else if nominated {
		s.requeueAfterPodRemoval(ctx, pod, revision)
	}
	s.handled(ev, began)
}

// requeueAfterPodRemoval requeues the pods that may fit now that a pod has left its node or its nominated node.
func (s *Scheduler) requeueAfterPodRemoval(ctx context.Context, pod *corev1.Pod, revision uint64) {
	ev := event{framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}, pod, nil, revision}
	s.queue.moveOnEvent(ctx, ev, s.clock.Now())
}

// activate moves pods to the activeQ for a plugin that calls Handle.Activate.
func (s *Scheduler) activate(pods map[string]*corev1.Pod) {
	s.post(func(ctx context.Context) {
		for _, pod := range pods {
			if p, ok := s.queue.pods[pod.UID]; ok && p.location != inActiveQ && p.location != inFlight {
				s.queue.moveToActiveQ(ctx, p, forceActivate, s.clock.Now())
			}
		}
	})
}

// reportGated reports the plugin that gates a pod, and its reason.
func (s *Scheduler) reportGated(p *queuedPodInfo) {
	message := "waiting for scheduler plugin " + p.gatingPlugin
	if p.gatingMessage != "" {
		message += ": " + p.gatingMessage
	}
	s.decisions.gated(p, s.setup.profiles[p.info.pod.Spec.SchedulerName], message)
}
