package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	replicationControllers    = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")
	replicationControllerKind = corev1.SchemeGroupVersion.WithKind("ReplicationController")
)

// ReplicationController keeps the number of pods that each ReplicationController specifies.
func ReplicationController(env controller.Env) reconcile.Loop {
	return replicas[*corev1.ReplicationController]{
		sets: client.CacheOf[*corev1.ReplicationController](env.Caches, replicationControllers), kind: replicationControllerKind,
		view: asReplicaSet, withStatus: replicationControllerWithStatus,
	}.loop(env, "replicationcontroller")
}

// asReplicaSet returns a ReplicaSet that specifies what rc specifies. It shares with rc.
func asReplicaSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds, Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas, ReadyReplicas: rc.Status.ReadyReplicas,
			AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return set
}

// replicationControllerWithStatus returns a copy of rc with a status. A ReplicationController does not count its terminating pods.
func replicationControllerWithStatus(rc *corev1.ReplicationController, status appsv1.ReplicaSetStatus) *corev1.ReplicationController {
	next := rc.DeepCopy()
	next.Status = corev1.ReplicationControllerStatus{
		Replicas: status.Replicas, FullyLabeledReplicas: status.FullyLabeledReplicas, ReadyReplicas: status.ReadyReplicas,
		AvailableReplicas: status.AvailableReplicas, ObservedGeneration: status.ObservedGeneration,
	}
	for _, c := range status.Conditions {
		next.Status.Conditions = append(next.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return next
}
