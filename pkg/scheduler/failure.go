package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/trace"
)

// clearNomination ends a pod's nomination: its attempt failed on the node that it was nominated to, or with an error.
var clearNomination = &framework.NominatingInfo{NominatingMode: framework.ModeOverride}

// recordFailure counts an attempt that gave the pod no node, and publishes the reason.
func (s *Scheduler) recordFailure(ctx context.Context, a *attempt, reason, message string, nominating *framework.NominatingInfo) {
	result := resultUnschedulable
	if reason == corev1.PodReasonSchedulerError {
		result = resultError
	}
	s.metrics.attempted(a, result)
	s.publishFailure(ctx, a, reason, message, nominating)
}

// publishFailure writes in an Event and in the pod's status why it has no node, and applies the nomination.
func (s *Scheduler) publishFailure(ctx context.Context, a *attempt, reason, message string, nominating *framework.NominatingInfo) {
	pod := a.info.pod
	s.nominator.add(a.info, nominating)
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
		if old.Reason == reason && old.Message == message && !renominates(pod, nominating) {
			return
		}
		condition.LastTransitionTime = old.LastTransitionTime
	}
	s.writeStatus(ctx, a.queuedPodInfo, func(ctx context.Context) { s.patchStatus(ctx, pod, &condition, nominating) })
}

// writeStatus calls write in a goroutine, after the writes about the pod's earlier attempts. The pod is bound after it: otherwise a bound pod
// could be left with a condition that says that it is not.
func (s *Scheduler) writeStatus(ctx context.Context, p *queuedPodInfo, write func(context.Context)) {
	before, done := p.written, make(chan struct{})
	p.written = done
	started := s.spawn(ctx, slowBinding, func(ctx context.Context) {
		defer close(done)
		awaitWritten(ctx, before)
		write(ctx)
	})
	if !started {
		close(done)
	}
}

// awaitWritten waits until a status is written. On a clock with turns, others have theirs meanwhile.
func awaitWritten(ctx context.Context, written <-chan struct{}) {
	if written == nil {
		return
	}
	for {
		select {
		case <-written:
			return
		case <-ctx.Done():
			return
		default:
		}
		if !clock.YieldTurn(ctx) {
			break
		}
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// renominates reports whether the info names another node than the pod's status.
func renominates(pod *corev1.Pod, info *framework.NominatingInfo) bool {
	return info.Mode() == framework.ModeOverride && pod.Status.NominatedNodeName != info.NominatedNodeName
}

// patchStatus writes a condition, if not nil, and the nomination to the pod's status.
func (s *Scheduler) patchStatus(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition, nominating *framework.NominatingInfo) {
	status := map[string]any{}
	if condition != nil {
		status["conditions"] = []corev1.PodCondition{*condition}
	}
	if renominates(pod, nominating) {
		status["nominatedNodeName"] = nominating.NominatedNodeName
	}
	err := PatchPodStatus(ctx, s.client, pod, status)
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		slog.WarnContext(ctx, "pod status not written", "pod", podName(pod), "err", err)
	}
}

// PatchPodStatus merges fields into the status of a pod. It returns a conflict if another pod has the name meanwhile.
func PatchPodStatus(ctx context.Context, c client.Client, pod *corev1.Pod, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	target := client.In(client.Pods, objects.Key{Namespace: pod.Namespace, Name: pod.Name}).Sub("status")
	_, err = c.Patch(ctx, target, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	return err
}

// enqueueFailed reports a pod that a failing PreEnqueue plugin keeps out of the activeQ.
func (s *Scheduler) enqueueFailed(ctx context.Context, p *queuedPodInfo, failure *pluginFailure) {
	a := &attempt{queuedPodInfo: p, profile: s.setup.profiles[p.info.pod.Spec.SchedulerName]}
	s.decisions.failed(a, "Error", failure.Error())
	s.publishFailure(ctx, a, corev1.PodReasonSchedulerError, failure.Error(), nil)
}
