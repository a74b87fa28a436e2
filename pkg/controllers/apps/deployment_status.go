package apps

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

const maxInt32 = math.MaxInt32 // as a limit or deadline: none

func (ro *rollout) hasDeadline() bool {
	deadline := ro.deployment.Spec.ProgressDeadlineSeconds
	return deadline != nil && *deadline != maxInt32
}

func (ro *rollout) progressing() *appsv1.DeploymentCondition {
	return deploymentCondition(&ro.deployment.Status, appsv1.DeploymentProgressing)
}

func deploymentCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setCondition appends a condition, unless the deployment has it with that status and reason.
func (ro *rollout) setCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	now := controller.WholeSeconds(ro.now)
	putCondition(&ro.deployment.Status, appsv1.DeploymentCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now,
	})
}

func putCondition(s *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	have := deploymentCondition(s, c.Type)
	if have != nil && have.Status == c.Status {
		if have.Reason == c.Reason {
			return
		}
		c.LastTransitionTime = have.LastTransitionTime
	}
	dropCondition(s, c.Type)
	s.Conditions = append(s.Conditions, c)
}

func dropCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

// setPaused sets the reason of Progressing to DeploymentPaused, so that the deadline does not run while the deployment is paused.
func (ro *rollout) setPaused() {
	c := ro.progressing()
	if ro.hasDeadline() && (c == nil || c.Reason != timedOut && c.Reason != paused) {
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, paused, "Deployment is paused")
	}
}

func (ro *rollout) setResumed() {
	if c := ro.progressing(); ro.hasDeadline() && c != nil && c.Reason == paused {
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
}

// Reasons of the condition Progressing that decisions depend on.
const (
	paused       = "DeploymentPaused"
	timedOut     = "ProgressDeadlineExceeded"
	setAvailable = "NewReplicaSetAvailable"
)

// setStatus computes the deployment's status from its sets, without the progress of a rollout.
func (ro *rollout) setStatus() {
	d := ro.deployment
	sets := ro.sets()
	available := sum(sets, func(s *appsv1.ReplicaSet) int32 { return s.Status.AvailableReplicas })
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		Replicas:            sum(sets, func(s *appsv1.ReplicaSet) int32 { return s.Status.Replicas }),
		ReadyReplicas:       sum(sets, func(s *appsv1.ReplicaSet) int32 { return s.Status.ReadyReplicas }),
		AvailableReplicas:   available,
		UnavailableReplicas: max(0, specReplicas(sets)-available),
		TerminatingReplicas: terminatingIn(sets),
		CollisionCount:      d.Status.CollisionCount,
		Conditions:          d.Status.Conditions,
	}
	if ro.current != nil {
		s.UpdatedReplicas = ro.current.Status.Replicas
	}
	d.Status = s
	if available >= ro.replicas()-ro.maxUnavailable() {
		ro.setCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
	} else {
		ro.setCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
	}
}

// terminatingIn returns the number of terminating pods of sets, nil if the status of a set has none.
func terminatingIn(sets []*appsv1.ReplicaSet) *int32 {
	var n int32
	for _, s := range sets {
		if s.Status.TerminatingReplicas == nil {
			return nil
		}
		n += *s.Status.TerminatingReplicas
	}
	return &n
}

// setProgress is setStatus and sets the conditions of a rollout too: complete, progressing or timed out.
func (ro *rollout) setProgress() {
	d := ro.deployment
	before := *d.Status.DeepCopy()
	was := deploymentCondition(&before, appsv1.DeploymentProgressing)
	ro.setStatus()
	if !ro.hasDeadline() {
		dropCondition(&d.Status, appsv1.DeploymentProgressing)
	} else if done := d.Status.Replicas == d.Status.UpdatedReplicas && was != nil && was.Reason == setAvailable; !done {
		ro.setProgressing(&before, was)
	}
	if failure := ro.failure(); failure != nil {
		putCondition(&d.Status, *failure)
	} else {
		dropCondition(&d.Status, appsv1.DeploymentReplicaFailure)
	}
}

// setProgressing sets the condition Progressing. before is the earlier status, and was the earlier condition.
func (ro *rollout) setProgressing(before *appsv1.DeploymentStatus, was *appsv1.DeploymentCondition) {
	about := fmt.Sprintf("Deployment %q", ro.deployment.Name)
	if ro.current != nil {
		about = fmt.Sprintf("ReplicaSet %q", ro.current.Name)
	}
	switch s := &ro.deployment.Status; {
	case ro.complete(s):
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, setAvailable, about+" has successfully progressed.")
	case progressed(before, s):
		now := controller.WholeSeconds(ro.now)
		c := appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated",
			Message: about + " is progressing.", LastUpdateTime: now, LastTransitionTime: now,
		}
		if was != nil && was.Status == corev1.ConditionTrue {
			c.LastTransitionTime = was.LastTransitionTime
		}
		dropCondition(s, c.Type) // even if it is equal: the deadline counts from its update time
		s.Conditions = append(s.Conditions, c)
	case ro.deadlineExceeded():
		ro.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, timedOut, about+" has timed out progressing.")
	}
}

// complete reports whether all pods are of the current template and available, and no others are left.
func (ro *rollout) complete(s *appsv1.DeploymentStatus) bool {
	n := ro.replicas()
	return s.UpdatedReplicas == n && s.Replicas == n && s.AvailableReplicas == n &&
		s.ObservedGeneration >= ro.deployment.Generation
}

// progressed reports whether there are more updated, fewer old, or more ready or available pods than before.
func progressed(before, s *appsv1.DeploymentStatus) bool {
	return s.UpdatedReplicas > before.UpdatedReplicas ||
		s.Replicas-s.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		s.ReadyReplicas > before.ReadyReplicas || s.AvailableReplicas > before.AvailableReplicas
}

func (ro *rollout) deadlineExceeded() bool {
	c := ro.progressing()
	switch {
	case c == nil || c.Reason == setAvailable:
		return false
	case c.Reason == timedOut:
		return true
	}
	return ro.deadline(c).Before(ro.now)
}

func (ro *rollout) deadline(c *appsv1.DeploymentCondition) time.Time {
	return c.LastUpdateTime.Add(time.Duration(*ro.deployment.Spec.ProgressDeadlineSeconds) * time.Second)
}

// checkAgain returns how long after this sync the progress deadline is due, 0 if no deadline runs. A deployment that was
// complete and has lost pods since has none: the watches of its ReplicaSets requeue it.
func (ro *rollout) checkAgain() time.Duration {
	c := ro.progressing()
	if !ro.hasDeadline() || c == nil || ro.deployment.Spec.Paused || ro.deployment.DeletionTimestamp != nil ||
		c.Reason == timedOut || c.Reason == setAvailable || ro.complete(&ro.deployment.Status) {
		return 0
	}
	return max(0, ro.deadline(c).Sub(ro.now)) + time.Second // the condition's time has whole seconds
}

// failure returns the condition ReplicaFailure of the current set or, if that has none, of the first old set that has
// one.
func (ro *rollout) failure() *appsv1.DeploymentCondition {
	sets := ro.old
	if ro.current != nil {
		sets = append([]*appsv1.ReplicaSet{ro.current}, sets...)
	}
	for _, s := range sets {
		if i := slices.IndexFunc(s.Status.Conditions, isReplicaFailure); i >= 0 {
			c := s.Status.Conditions[i]
			return &appsv1.DeploymentCondition{
				Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
				LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
			}
		}
	}
	return nil
}
