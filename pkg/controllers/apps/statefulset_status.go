package apps

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// status returns the set's status with pods counted.
func (m *statefulPods) status(collisions int32, pods []*corev1.Pod) appsv1.StatefulSetStatus {
	s := appsv1.StatefulSetStatus{
		ObservedGeneration: m.set.Generation, CurrentRevision: m.current, UpdateRevision: m.update, CollisionCount: &collisions,
	}
	for _, p := range pods {
		if !isCreated(p) {
			continue
		}
		s.Replicas++
		if isRunningAndReady(p) {
			s.ReadyReplicas++
			if m.available(p) {
				s.AvailableReplicas++
			}
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		revision := p.Labels[appsv1.StatefulSetRevisionLabel]
		if revision == m.current {
			s.CurrentReplicas++
		}
		if revision == m.update {
			s.UpdatedReplicas++
		}
	}
	return s
}

// completeRollout makes the update revision the current one once all replicas are updated and ready.
func completeRollout(set *appsv1.StatefulSet, s *appsv1.StatefulSetStatus) {
	n := *set.Spec.Replicas
	if set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		s.UpdatedReplicas == n && s.ReadyReplicas == n && s.Replicas == n {
		s.CurrentReplicas, s.CurrentRevision = s.UpdatedReplicas, s.UpdateRevision
	}
}

// statusChanged reports whether a status must be written. The collision count and conditions alone are no reason.
func statusChanged(old, s appsv1.StatefulSetStatus) bool {
	return s.ObservedGeneration > old.ObservedGeneration || s.Replicas != old.Replicas || s.ReadyReplicas != old.ReadyReplicas || s.AvailableReplicas != old.AvailableReplicas ||
		s.CurrentReplicas != old.CurrentReplicas || s.UpdatedReplicas != old.UpdatedReplicas ||
		s.CurrentRevision != old.CurrentRevision || s.UpdateRevision != old.UpdateRevision
}

func (r *statefulSet) writeStatus(ctx context.Context, set *appsv1.StatefulSet, s appsv1.StatefulSetStatus) error {
	if !statusChanged(set.Status, s) {
		return nil
	}
	next := set.DeepCopy()
	next.Status = s
	t := client.In(client.StatefulSets, controller.KeyOf(set)).Sub("status")
	out, err := r.client.Update(ctx, t, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	r.sets.Put(out.(*appsv1.StatefulSet))
	return nil
}

// nextAvailable returns the time until the next ready pod becomes available, 0 if all are.
func nextAvailable(set *appsv1.StatefulSet, s appsv1.StatefulSetStatus, pods []*corev1.Pod, now time.Time) time.Duration {
	minReady := time.Duration(set.Spec.MinReadySeconds) * time.Second
	if minReady == 0 || s.ReadyReplicas == s.AvailableReplicas {
		return 0
	}
	next := minReady
	for _, p := range pods {
		if _, wait := controller.PodAvailable(p, minReady, now); wait > 0 {
			next = min(next, wait)
		}
	}
	return next
}
