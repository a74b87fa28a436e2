package kubelet

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PriorityGrace is how long the pods of a priority, and of those up to the next one, may take to end when their node shuts down.
type PriorityGrace struct {
	Priority int32
	Period   time.Duration
}

// The texts of a node shutdown, as in Kubernetes.
const (
	shutdownReason     = "Terminated"
	shutdownMessage    = "Pod was terminated in response to imminent node shutdown."
	notAdmittedReason  = "NodeShutdown"
	notAdmittedMessage = "Pod was rejected as the node is shutting down."
)

// Shutdown ends the pods of the host's nodes in the order of their priorities, each group within its period, and returns when all have
// ended or had their time. The nodes are not ready and admit no pods from now on. Simulated nodes are left alone.
func (h *Host) Shutdown(ctx context.Context, periods []PriorityGrace) {
	if len(periods) == 0 {
		return
	}
	var wg sync.WaitGroup
	for _, k := range h.allKubelets() {
		if !k.Tier.Simulated {
			wg.Go(func() { k.shutDown(ctx, periods) })
		}
	}
	wg.Wait()
}

func (k *Kubelet) shutDown(ctx context.Context, periods []PriorityGrace) {
	k.mu.Lock()
	k.shuttingDown = true
	k.mu.Unlock()
	if k.recorder != nil {
		k.recorder.Event(ctx, k.currentNode(), corev1.EventTypeNormal, "NodeShutdown", "Shutdown manager detected shutdown event")
	}
	k.wake() // for the Event
	if err := k.postNode(ctx); err != nil {
		slog.WarnContext(ctx, "cannot post node status", "node", k.Name, "err", err)
	}
	var active []*corev1.Pod
	for _, pod := range k.ownPods() {
		if !isFinished(pod.Status.Phase) {
			active = append(active, pod)
		}
	}
	for _, group := range groupByPriority(periods, active) {
		k.endGroup(ctx, group)
	}
}

func (k *Kubelet) isShuttingDown() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shuttingDown
}

// endGroup ends pods and waits for their final statuses, at most for the group's period.
func (k *Kubelet) endGroup(ctx context.Context, g shutdownGroup) {
	if len(g.pods) == 0 {
		return
	}
	var waits []<-chan struct{}
	for _, pod := range g.pods {
		w := k.host.worker(k, keyOf(pod), pod.UID)
		waits = append(waits, w.requestEnd(podEnd{
			phase: corev1.PodFailed, reason: shutdownReason, message: shutdownMessage, disruption: true, grace: new(g.graceOf(pod)),
		}))
	}
	over := k.host.machineClock().NewTimer(g.Period)
	defer over.Stop()
	for _, ended := range waits {
		select {
		case <-ended:
		case <-over.C():
			slog.WarnContext(ctx, "pods did not end in time for the node's shutdown", "node", k.Name, "priority", g.Priority, "period", g.Period)
			return
		case <-ctx.Done():
			return
		}
	}
}

// shutdownGroup are the pods that end together.
type shutdownGroup struct {
	PriorityGrace
	pods []*corev1.Pod
}

// graceOf returns the grace period of one of the pods in seconds: its own, if that is shorter.
func (g shutdownGroup) graceOf(pod *corev1.Pod) int64 {
	grace := int64(g.Period / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = min(grace, *own)
	}
	return grace
}

// groupByPriority distributes pods over the periods, the lowest priority first. A pod belongs to the highest priority that is not above
// its own, and below all of them to the lowest.
func groupByPriority(periods []PriorityGrace, pods []*corev1.Pod) []shutdownGroup {
	var groups []shutdownGroup
	for _, p := range slices.SortedStableFunc(slices.Values(periods), func(a, b PriorityGrace) int { return cmp.Compare(a.Priority, b.Priority) }) {
		groups = append(groups, shutdownGroup{PriorityGrace: p})
	}
	for _, pod := range pods {
		priority := int32(0)
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		above := sort.Search(len(groups), func(i int) bool { return groups[i].Priority > priority })
		g := &groups[max(above-1, 0)]
		g.pods = append(g.pods, pod)
	}
	return groups
}
