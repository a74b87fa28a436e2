package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// tellFailure says on the pod, and in an event, why it has no node.
func (s *Scheduler) tellFailure(ctx context.Context, a *attempt, reason, message string) {
	pod := a.info.pod
	ctx = trace.With(ctx, a.causes()...)
	for _, st := range a.stages {
		trace.Add(ctx, st.Name, st.Start, st.Took)
	}
	s.recorders.action(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", message)
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(s.clock.Now()),
	}
	if old := conditionOf(pod, corev1.PodScheduled); old != nil && old.Status == condition.Status {
		if old.Reason == reason && old.Message == message {
			return
		}
		condition.LastTransitionTime = old.LastTransitionTime
	}
	s.beside(ctx, func() { s.patchCondition(ctx, pod, condition) })
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func (s *Scheduler) patchCondition(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err == nil {
		key := objects.Key{Namespace: pod.Namespace, Name: pod.Name}
		_, err = s.client.Patch(ctx, client.In(client.Pods, key).Sub("status"), client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		slog.WarnContext(ctx, "pod condition not written", "pod", podName(pod), "err", err)
	}
}
