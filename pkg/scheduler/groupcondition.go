package scheduler

import (
	"context"
	"encoding/json"
	"log/slog"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// groupOutcome is the condition PodGroupScheduled of a PodGroup as the scheduler decided it last. The conditions of a PodGroup are written one
// after the other, and of those that wait only the last: written at the same time, an older one could replace a newer one.
type groupOutcome struct {
	of        types.UID // the PodGroup that condition is about
	condition *metav1.Condition
	unwritten bool
	writing   bool // a goroutine writes until nothing is unwritten
}

// decide takes a new condition of group. It reports whether the caller has to write. A PodGroup that was scheduled stays so.
func (o *groupOutcome) decide(group *schedulingv1alpha2.PodGroup, c metav1.Condition) (write bool) {
	last := o.condition
	if o.of != group.UID || last == nil {
		last = meta.FindStatusCondition(group.Status.Conditions, c.Type)
	}
	if last != nil {
		if last.Status == metav1.ConditionTrue && c.Status != metav1.ConditionTrue {
			return false
		}
		if last.Status == c.Status {
			c.LastTransitionTime = last.LastTransitionTime
		}
		if *last == c {
			return false
		}
	}
	o.of, o.condition, o.unwritten = group.UID, &c, true
	write, o.writing = !o.writing, true
	return write
}

// next returns the condition to write, nil if there is none; then the writing has ended.
func (o *groupOutcome) next() (types.UID, *metav1.Condition) {
	if !o.unwritten {
		o.writing = false
		return "", nil
	}
	o.unwritten = false
	return o.of, o.condition
}

// failed forgets a condition that was not written, so that the next one is compared with that of the PodGroup.
func (o *groupOutcome) failed() {
	if !o.unwritten {
		o.condition = nil
	}
}

// setGroupCondition writes the condition PodGroupScheduled of a PodGroup after an attempt.
func (s *Scheduler) setGroupCondition(ctx context.Context, key objects.Key, status *framework.Status) {
	group, ok := s.objects.podGroup(key)
	if !ok {
		return
	}
	c := metav1.Condition{
		Type: schedulingv1alpha2.PodGroupScheduled, Status: metav1.ConditionFalse, Message: status.Message(), ObservedGeneration: group.Generation,
		LastTransitionTime: metav1.NewTime(s.clock.Now()),
	}
	switch {
	case status.IsSuccess():
		c.Status, c.Reason = metav1.ConditionTrue, "Scheduled"
	case status.IsRejected():
		c.Reason = schedulingv1alpha2.PodGroupReasonUnschedulable
	default:
		c.Reason, c.Message = schedulingv1alpha2.PodGroupReasonSchedulerError, status.AsError().Error()
	}
	s.groups.mu.Lock()
	of := s.groups.groups[key]
	write := of != nil && of.outcome.decide(group, c)
	s.groups.mu.Unlock()
	if write {
		s.spawn(ctx, slowBinding, func(ctx context.Context) { s.writeGroupConditions(ctx, key, of) })
	}
}

// writeGroupConditions writes the conditions of a PodGroup until nothing is unwritten.
func (s *Scheduler) writeGroupConditions(ctx context.Context, key objects.Key, of *podGroup) {
	for {
		of.mu.Lock()
		uid, c := of.outcome.next()
		of.mu.Unlock()
		if c == nil {
			return
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"conditions": []metav1.Condition{*c}}})
		if err == nil {
			patch := client.Patch{Type: types.StrategicMergePatchType, Data: data}
			_, err = s.client.Patch(ctx, client.In(podGroupResource, key).Sub("status"), patch, metav1.PatchOptions{})
		}
		if err == nil {
			continue
		}
		of.mu.Lock()
		of.outcome.failed()
		of.mu.Unlock()
		if ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			slog.WarnContext(ctx, "status of a pod group not written", "podGroup", key.String(), "err", err)
		}
	}
}
