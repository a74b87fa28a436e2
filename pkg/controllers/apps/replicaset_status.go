package apps

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// replicaSetStatus returns the status of a set, and the time until a ready pod becomes available, 0 if there is none.
// failure is the error of creating or deleting pods.
func replicaSetStatus(set *appsv1.ReplicaSet, pods, terminating []*corev1.Pod, failure error, now time.Time) (appsv1.ReplicaSetStatus, time.Duration) {
	gone := int32(len(terminating))
	status := appsv1.ReplicaSetStatus{
		Replicas: int32(len(pods)), TerminatingReplicas: &gone, ObservedGeneration: set.Generation,
		Conditions: replicaSetConditions(set, len(pods), failure, now),
	}
	minReady := time.Duration(set.Spec.MinReadySeconds) * time.Second
	template := labels.Set(set.Spec.Template.Labels).AsSelectorPreValidated()
	var again time.Duration
	for _, p := range pods {
		if template.Matches(labels.Set(p.Labels)) {
			status.FullyLabeledReplicas++
		}
		if controller.IsPodReady(p) {
			status.ReadyReplicas++
		}
		ok, wait := controller.PodAvailable(p, minReady, now)
		if ok {
			status.AvailableReplicas++
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return status, again
}

// replicaSetConditions returns the conditions with ReplicaFailure added, kept or removed.
func replicaSetConditions(set *appsv1.ReplicaSet, pods int, failure error, now time.Time) []appsv1.ReplicaSetCondition {
	have := slices.ContainsFunc(set.Status.Conditions, isReplicaFailure)
	switch {
	case failure != nil && !have:
		reason := ""
		if diff := pods - int(*set.Spec.Replicas); diff < 0 {
			reason = "FailedCreate"
		} else if diff > 0 {
			reason = "FailedDelete"
		}
		return append(slices.Clone(set.Status.Conditions), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: controller.WholeSeconds(now), Reason: reason, Message: failure.Error(),
		})
	case failure == nil && have:
		return slices.DeleteFunc(slices.Clone(set.Status.Conditions), isReplicaFailure)
	}
	return set.Status.Conditions
}

func isReplicaFailure(c appsv1.ReplicaSetCondition) bool {
	return c.Type == appsv1.ReplicaSetReplicaFailure
}

func (r replicas[T]) writeStatus(ctx context.Context, obj T, status appsv1.ReplicaSetStatus) error {
	next := r.withStatus(obj, status)
	if equality.Semantic.DeepEqual(r.view(obj).Status, r.view(next).Status) {
		return nil
	}
	out, err := r.client.Update(ctx, client.In(r.sets.Resource(), controller.KeyOf(obj)).Sub("status"), next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sets.Put(out.(T))
	return nil
}
