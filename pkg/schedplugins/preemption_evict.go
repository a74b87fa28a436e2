package schedplugins

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// evictions are the evictions of victims that are under way. It is safe for concurrent use.
type evictions struct {
	handle framework.Handle

	mu      sync.Mutex
	running map[types.UID]*eviction // by preemptor
}

// eviction is the eviction of all victims of one preemptor.
type eviction struct {
	gated bool // PreEnqueue has kept the preemptor out of the queue meanwhile
}

func newEvictions(h framework.Handle) *evictions {
	return &evictions{handle: h, running: map[types.UID]*eviction{}}
}

// gate reports whether the pod's victims are being evicted. If so, the pod is activated when that has ended.
func (e *evictions) gate(pod *corev1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	running, ok := e.running[pod.UID]
	if ok {
		running.gated = true
	}
	return ok
}

// start evicts the victims of a candidate beside the scheduling loop. In a simulation the sandbox removes them.
func (e *evictions) start(preemptor *corev1.Pod, c candidate) {
	victims := slices.DeleteFunc(slices.Clone(c.victims), func(v *corev1.Pod) bool { return v.DeletionTimestamp != nil })
	api, ok := e.handle.(scheduler.APIHandle)
	if !ok || api.Client() == nil || len(victims) == 0 {
		return
	}
	e.mu.Lock()
	e.running[preemptor.UID] = &eviction{}
	e.mu.Unlock()
	api.Preempt(preemptor, func(ctx context.Context) error {
		err := e.evict(ctx, api, preemptor, victims, c.node)
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "preemption failed", "pod", podKey(preemptor).String(), "node", c.node, "err", err)
		}
		e.end(preemptor, err != nil)
		return err
	})
}

// end ends the eviction, and activates a preemptor that was gated meanwhile, or whose victims could not be evicted.
func (e *evictions) end(preemptor *corev1.Pod, failed bool) {
	e.mu.Lock()
	gated := e.running[preemptor.UID].gated
	delete(e.running, preemptor.UID)
	e.mu.Unlock()
	if gated || failed {
		e.handle.Activate(klog.Logger{}, map[string]*corev1.Pod{preemptor.Name: preemptor})
	}
}

// evict ends the nominations of pods of lower priority to the node, so that they look for another one at once, and evicts the victims.
func (e *evictions) evict(ctx context.Context, api scheduler.APIHandle, preemptor *corev1.Pod, victims []*corev1.Pod, node string) error {
	for _, other := range e.handle.NominatedPodsForNode(node) {
		pod := other.GetPod()
		if helper.PodPriority(pod) >= helper.PodPriority(preemptor) || pod.Status.NominatedNodeName == "" {
			continue
		}
		if err := scheduler.PatchPodStatus(ctx, api.Client(), pod, map[string]any{"nominatedNodeName": ""}); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "nomination not cleared", "pod", podKey(pod).String(), "node", node, "err", err)
		}
	}
	for _, victim := range victims {
		if err := e.evictOne(ctx, api, preemptor, victim, node); err != nil {
			return fmt.Errorf("evict pod %s: %w", podKey(victim), err)
		}
	}
	return nil
}

// evictOne deletes a victim. One that is not bound yet is rejected instead, and returns to the queue.
func (e *evictions) evictOne(ctx context.Context, api scheduler.APIHandle, preemptor, victim *corev1.Pod, node string) error {
	waiting, binding := e.handle.GetWaitingPod(victim.UID), e.handle.GetPodInPreBind(victim.UID)
	switch {
	case waiting != nil && waiting.Preempt("DefaultPreemption", "preempted"):
	case binding != nil && binding.CancelPod(fmt.Sprintf("preempted by pod %s", preemptor.UID)):
	default:
		deleted, err := deleteVictim(ctx, api, preemptor, victim)
		if err != nil || !deleted {
			return err
		}
	}
	e.handle.EventRecorder().Eventf(victim, preemptor, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", preemptor.UID, node)
	return nil
}

// deleteVictim sets the condition DisruptionTarget and deletes the pod. It returns false if the pod is gone.
func deleteVictim(ctx context.Context, api scheduler.APIHandle, preemptor, victim *corev1.Pod) (bool, error) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message:            preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation, LastTransitionTime: metav1.NewTime(api.Clock().Now()),
	}
	err := scheduler.PatchPodStatus(ctx, api.Client(), victim, map[string]any{"conditions": []corev1.PodCondition{condition}})
	if err == nil {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))}
		_, err = api.Client().Delete(ctx, client.In(client.Pods, podKey(victim)), options)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another pod of this name
		return false, nil
	}
	return err == nil, err
}

func podKey(pod *corev1.Pod) objects.Key {
	return objects.Key{Namespace: pod.Namespace, Name: pod.Name}
}
