package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// Attempt is the result of an attempt for a pod of the queue.
type Attempt struct {
	ScheduleResult
	Pod *corev1.Pod // as it was given to SetPod, with the claims of its templates; must not be changed
}

// FlushEvery is how often a scheduler calls Flush.
const FlushEvery = flushEvery

// SetNode adds or replaces a node, and requeues the pods for which that is an event.
func (b *Sandbox) SetNode(ctx context.Context, node *corev1.Node) {
	var old *corev1.Node
	if n, ok := b.s.cluster.byName[node.Name]; ok {
		old = n.node
	}
	b.s.applyNode(ctx, client.Change[*corev1.Node]{Old: old, New: node})
}

// DeleteNode deletes a node. Its pods stay.
func (b *Sandbox) DeleteNode(ctx context.Context, name string) {
	if n, ok := b.s.cluster.byName[name]; ok && n.node != nil {
		b.s.applyNode(ctx, client.Change[*corev1.Node]{Old: n.node})
	}
}

// SetNamespace adds or replaces a namespace.
func (b *Sandbox) SetNamespace(ns *corev1.Namespace) {
	b.s.namespaces.(*simulatedNamespaces).add(ns)
}

// SetObject adds or replaces an object of a resource for whose events plugins registered, such as a PodGroup, and requeues the pods for which that is an event.
func (b *Sandbox) SetObject(ctx context.Context, of framework.EventResource, obj objects.Object) {
	old := b.s.objects.put(of, obj)
	b.s.objectChanged(ctx, of, client.Change[objects.Object]{Old: old, New: obj})
}

// SetPod adds or replaces a pod, which needs a UID and a schedulerName: on its node, or in the queue if it has none. A pod of a scheduler without a
// profile is left out.
func (b *Sandbox) SetPod(ctx context.Context, pod *corev1.Pod) error {
	b.queueing = true
	if pod.Spec.NodeName == "" && len(pod.Spec.ResourceClaims) > 0 {
		pod = pod.DeepCopy()
		b.giveClaims(pod)
	}
	info, err := newPodInfo(pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", podName(pod), err)
	}
	b.s.applyPod(ctx, info, 0)
	return nil
}

// DeletePod deletes a pod with its claims, and requeues the pods for which that is an event.
func (b *Sandbox) DeletePod(ctx context.Context, pod *corev1.Pod) {
	b.s.applyDeletedPod(ctx, pod, 0)
	b.freeClaims(pod, true)
}

// Due returns when a pod's backoff ends next; zero: no pod backs off.
func (b *Sandbox) Due() time.Time { return b.s.queue.next() }

// Flush requeues the pods that have been unschedulable for more than five minutes.
func (b *Sandbox) Flush(ctx context.Context) { b.s.queue.flushUnschedulable(ctx, b.s.clock.Now()) }

// Next tries the next pod of the queue, and returns nil if none is due. A pod that finds a node is bound at once: Reserve, Permit and the plugins of the
// binding cycle are not called. The victims of a preemption are removed at once, and the preemptor is nominated to their node. The pods of a PodGroup
// that wait are tried together, as by a scheduler, with the Reserve and Permit plugins, and the result has all of them.
func (b *Sandbox) Next(ctx context.Context) []Attempt {
	b.s.drainInbox(ctx) // pods that plugins activated
	for _, ch := range b.changes {
		b.s.objectChanged(ctx, ch.of, ch.Change)
	}
	b.changes = nil
	p := b.s.queue.pop(ctx, b.s.clock.Now())
	if p == nil {
		return nil
	}
	if key, grouped := podref.PodGroup(p.info.pod); grouped && b.s.features.GenericWorkload {
		return b.nextGroup(ctx, key, p)
	}
	a := &attempt{queuedPodInfo: p, profile: b.s.setup.profiles[p.info.pod.Spec.SchedulerName], events: b.s.queue.events}
	out := Attempt{Pod: p.info.pod}
	d := b.s.decide(ctx, a, wallClock.Now())
	if d.status == nil {
		out.Node = d.node.node.Name
		b.bind(ctx, a, out.Node)
		return []Attempt{out}
	}
	out.Message = d.message()
	b.nominate(ctx, a.info, b.s.requeueAttempt(a, &d))
	if d.preemption != nil {
		out.Evicted = b.preempt(ctx, a.info.pod, d.preemption)
	}
	return []Attempt{out}
}

// nextGroup tries the pods of a PodGroup that wait. p is the one that was popped.
func (b *Sandbox) nextGroup(ctx context.Context, key objects.Key, p *queuedPodInfo) []Attempt {
	g, status, preempting := b.s.groupCycle(ctx, key, p, wallClock.Now())
	out := make([]Attempt, len(g.members))
	for i, m := range g.members { // all are bound or requeued before the events of evictions
		out[i].Pod = m.info.pod
		if status.IsSuccess() && m.status.IsSuccess() {
			out[i].Node = m.found
			b.bind(ctx, m.attempt, m.found)
			continue
		}
		failed, message, nominating := m.failure(status, preempting)
		out[i].Message = message
		b.s.requeueMember(m, failed)
		b.nominate(ctx, m.info, nominating)
	}
	for i, m := range g.members {
		if m.preemption != nil {
			out[i].Evicted = b.preempt(ctx, m.info.pod, m.preemption)
		}
	}
	return out
}

// bind binds a pod to its node, and requeues the pods for which that is an event.
func (b *Sandbox) bind(ctx context.Context, a *attempt, node string) {
	b.assume(ctx, a, node)
	bound := *a.info
	bound.pod = a.assumed
	b.s.applyBoundPod(ctx, &bound, 0)
}

// nominate applies a nomination as the watch of the patched status does.
func (b *Sandbox) nominate(ctx context.Context, info *podInfo, nominating *framework.NominatingInfo) {
	b.s.nominator.add(info, nominating)
	if !renominates(info.pod, nominating) {
		return
	}
	pod := *info.pod
	pod.Status.NominatedNodeName = nominating.NominatedNodeName
	newer := *info
	newer.pod = &pod
	b.s.applyPod(ctx, &newer, 0)
}

// preempt ends the nominations of pods of lower priority to the node, deletes the victims, and returns them. A pod of a group may have chosen victims
// that are gone by now: those of another pod, or pods of its group that the attempt had assumed on the node.
func (b *Sandbox) preempt(ctx context.Context, preemptor *corev1.Pod, p *Preemption) (evicted []*corev1.Pod) {
	for _, other := range b.s.nominator.forNode(p.Node) {
		if info, ok := other.(*podInfo); ok && helper.PodPriority(info.pod) < helper.PodPriority(preemptor) {
			b.nominate(ctx, info, clearNomination)
		}
	}
	for _, v := range p.Victims {
		if _, there := b.s.cluster.pods[v.UID]; there {
			b.DeletePod(ctx, v)
			evicted = append(evicted, v)
		}
	}
	return evicted
}

// NodeInfos returns the nodes with their pods and the sums of their requests, in the order of the nodes' names. They are valid until the next change.
func (b *Sandbox) NodeInfos() []framework.NodeInfo {
	list, _ := b.s.cluster.List() // never fails
	return list
}

// RequestsOf returns the resources that a pod requests of its node.
func RequestsOf(pod *corev1.Pod) framework.Resource { return requestsOf(pod).Resource }
