package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/eviction"
)

// Eviction are the settings of evictions under pressure, as in a KubeletConfiguration. The zero value evicts only pods above limits of
// their own.
type Eviction = eviction.Config

// CheckEviction returns an error for settings that a kubelet does not accept.
func CheckEviction(c Eviction) error {
	_, err := eviction.Parse(c)
	return err
}

const (
	pressureInterval = 10 * time.Second // between two measurements, as in Kubernetes
	evictionGrace    = 1                // in seconds, of a pod that is evicted at once
	minEvictionTime  = 10 * time.Second // how long the kubelet waits for the end of a pod, at least
)

// evictor evicts the pods of a node. Only the goroutine of followPressure uses it.
type evictor struct {
	*Kubelet
	thresholds []eviction.Threshold
	state      eviction.State
}

// followPressure measures the node at an interval, sets its conditions, and evicts pods, until ctx ends. After an eviction it measures
// again at once.
func (k *Kubelet) followPressure(ctx context.Context) {
	e := &evictor{Kubelet: k}
	var err error
	if e.thresholds, err = eviction.Parse(k.Eviction); err != nil {
		slog.ErrorContext(ctx, "no evictions under pressure", "node", k.Name, "err", err) // New has refused it
	}
	for ctx.Err() == nil {
		if e.sync(ctx) {
			continue
		}
		if clock.Sleep(ctx, k.host.machineClock(), pressureInterval) != nil {
			return
		}
	}
}

// sync evicts pods once, if that is necessary, and reports whether it has.
func (e *evictor) sync(ctx context.Context) bool {
	pods := e.activePods()
	var seen eviction.Observations
	var evict []eviction.Threshold
	if len(e.thresholds) > 0 {
		seen = e.observe(ctx)
		var conditions []corev1.NodeConditionType
		conditions, evict = e.state.Update(e.thresholds, seen, e.host.machineClock().Now(), e.Eviction.TransitionPeriod)
		e.setPressures(ctx, conditions)
	}
	if e.evictAboveLimits(ctx, pods) {
		return true
	}
	if len(evict) == 0 {
		return false
	}
	first, reclaim := eviction.First(evict)
	e.recorder.Event(ctx, e.currentNode(), corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(reclaim))
	usage := e.measure(ctx, pods)
	for _, pod := range eviction.Rank(reclaim, pods, usage) {
		grace := int64(evictionGrace)
		if !first.Hard {
			grace = e.Eviction.MaxPodGracePeriod
			if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
				grace = min(grace, *own)
			}
		}
		message, annotations := eviction.Message(reclaim, pod, usage, evict, seen)
		if e.evict(ctx, pod, podEnd{message: message, grace: &grace, disruption: true}, annotations) {
			return true
		}
	}
	slog.WarnContext(ctx, "no pod can be evicted", "node", e.Name, "resource", reclaim)
	return false
}

// evictAboveLimits evicts the pods that use more local storage than they may, and reports whether there were any.
func (e *evictor) evictAboveLimits(ctx context.Context, pods []*corev1.Pod) bool {
	any := false
	for _, pod := range pods {
		if !eviction.LimitsStorage(pod) || isCritical(pod) {
			continue
		}
		if message := eviction.StorageExceeded(pod, e.diskOf(ctx, pod)); message != "" {
			any = e.evict(ctx, pod, podEnd{message: message, grace: new(int64(evictionGrace))}, nil) || any
		}
	}
	return any
}

// evict ends a pod and waits for that. It returns false for a critical pod, which stays.
func (e *evictor) evict(ctx context.Context, pod *corev1.Pod, end podEnd, annotations map[string]string) bool {
	if isCritical(pod) {
		slog.WarnContext(ctx, "cannot evict a critical pod", "node", e.Name, "pod", keyOf(pod).String())
		return false
	}
	e.recorder.Annotated(ctx, pod, annotations, corev1.EventTypeWarning, eviction.Reason, end.message)
	end.phase, end.reason = corev1.PodFailed, eviction.Reason
	ended := e.host.worker(e.Kubelet, keyOf(pod), pod.UID).requestEnd(end)
	grace := time.Duration(*end.grace) * time.Second
	over := e.host.machineClock().NewTimer(max(grace+grace/2, minEvictionTime))
	defer over.Stop()
	select {
	case <-ended:
	case <-over.C():
	case <-ctx.Done():
	}
	return true
}

// criticalPriority is the priority from which pods are critical.
const criticalPriority = 2_000_000_000

// isCritical reports whether a pod is never evicted: it is static, or has a system priority.
func isCritical(pod *corev1.Pod) bool {
	return isStatic(pod) || isMirror(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= criticalPriority
}

// activePods returns the pods of the node that have started and have not ended.
func (e *evictor) activePods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range e.ownPods() {
		if isFinished(pod.Status.Phase) || pod.DeletionTimestamp != nil {
			continue
		}
		if w := e.host.knownWorker(pod); w != nil && !w.isEnding() {
			if _, ok := e.view(pod.UID); ok {
				out = append(out, pod)
			}
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return compareUIDs(a.UID, b.UID) })
	return out
}

func compareUIDs(a, b types.UID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// setPressures stores the conditions under pressure that the node has. When they change it posts them, with an Event for each.
func (k *Kubelet) setPressures(ctx context.Context, now []corev1.NodeConditionType) {
	k.mu.Lock()
	before := k.pressures
	k.pressures = now
	k.mu.Unlock()
	if slices.Equal(before, now) {
		return
	}
	if err := k.postNode(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot post node status", "node", k.Name, "err", err) // the next heartbeat repeats it
	}
	for _, p := range pressureConditions {
		if was, is := slices.Contains(before, p.kind), slices.Contains(now, p.kind); was != is {
			reason := p.relaxed.event
			if is {
				reason = p.pressed.event
			}
			k.recorder.Event(ctx, k.currentNode(), corev1.EventTypeNormal, reason, "Node "+k.Name+" status is now: "+reason)
		}
	}
}

// underPressure returns the node's conditions under pressure.
func (k *Kubelet) underPressure() []corev1.NodeConditionType {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pressures
}

// pressureText are the words for a state of a condition.
type pressureText struct{ reason, message, event string }

// pressureConditions are the conditions under pressure in the order in which a node has them.
var pressureConditions = [...]struct {
	kind             corev1.NodeConditionType
	pressed, relaxed pressureText
}{
	{corev1.NodeMemoryPressure,
		pressureText{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
		pressureText{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"}},
	{corev1.NodeDiskPressure,
		pressureText{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
		pressureText{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"}},
	{corev1.NodePIDPressure,
		pressureText{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
		pressureText{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"}},
}

// pressureStates returns the node's conditions about pressure.
func (k *Kubelet) pressureStates() []corev1.NodeCondition {
	now := k.underPressure()
	var out []corev1.NodeCondition
	for _, p := range pressureConditions {
		text, status := p.relaxed, corev1.ConditionFalse
		if slices.Contains(now, p.kind) {
			text, status = p.pressed, corev1.ConditionTrue
		}
		out = append(out, corev1.NodeCondition{Type: p.kind, Status: status, Reason: text.reason, Message: text.message})
	}
	return out
}
