package apps_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

var replicationControllers = corev1.SchemeGroupVersion.WithResource("replicationcontrollers")

// replicationController returns what kubectl run made before 1.18 with --generator=run/v1.
func replicationController(name string, replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"run": name}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: labels,
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "nginx"}}},
			},
		},
	}
}

// replicasReady makes new pods ready until the status of a ReplicationController shows n replicas that are available.
func replicasReady(c *controllertest.Cluster, name string, n int32) *corev1.ReplicationController {
	c.Helper()
	var rc *corev1.ReplicationController
	want := corev1.ReplicationControllerStatus{Replicas: n, FullyLabeledReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	c.Until("replicas available", func() bool {
		c.MakePodsReady()
		rc, _ = controllertest.Get[*corev1.ReplicationController](c, replicationControllers, name)
		want.ObservedGeneration = rc.Generation
		return rc.Status.String() == want.String()
	})
	return rc
}

// livePods returns the pods of the namespace default that are not being deleted.
func livePods(c *controllertest.Cluster) []*corev1.Pod {
	return slices.DeleteFunc(controllertest.List[*corev1.Pod](c, client.Pods), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// TestReplicationController creates, scales, orphans and adopts.
func TestReplicationController(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		rc := controllertest.Create(c, replicationControllers, replicationController("rc", 2))
		replicasReady(c, "rc", 2)
		for _, p := range livePods(c) {
			controllertest.Want(c, "owners", p.OwnerReferences, []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ReplicationController", Name: "rc", UID: rc.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}})
		}
		c.Merge(controllertest.At(replicationControllers, "rc"), `{"spec":{"replicas":4}}`)
		replicasReady(c, "rc", 4)
		c.Merge(controllertest.At(replicationControllers, "rc"), `{"spec":{"replicas":1}}`)
		replicasReady(c, "rc", 1)
		c.Until("events", func() bool { return len(c.EventsOf("rc")) >= 7 })

		last := livePods(c)[0]
		c.Remove(replicationControllers, "rc", metav1.DeletePropagationOrphan)
		c.Until("gone", func() bool { return !c.Exists(replicationControllers, "rc") })
		orphan, _ := controllertest.Get[*corev1.Pod](c, client.Pods, last.Name)
		controllertest.Want(c, "owners of the orphan", len(orphan.OwnerReferences), 0)
		rc = controllertest.Create(c, replicationControllers, replicationController("rc", 1))
		replicasReady(c, "rc", 1)
		adopted, _ := controllertest.Get[*corev1.Pod](c, client.Pods, last.Name)
		controllertest.Want(c, "adopted", metav1.IsControlledBy(adopted, rc), true)

		c.Merge(controllertest.At(client.Pods, last.Name), `{"metadata":{"labels":{"run":"lost"}}}`)
		c.Until("released and replaced", func() bool { return len(livePods(c)) == 2 })
		c.Remove(replicationControllers, "rc", metav1.DeletePropagationBackground)
		c.Until("only the released pod is left", func() bool {
			pods := livePods(c)
			return len(pods) == 1 && pods[0].Name == last.Name && len(pods[0].OwnerReferences) == 0
		})
	})
}

// TestReplicaFailureOfController checks the condition and the Event of a ReplicationController whose pods a quota refuses.
func TestReplicaFailureOfController(t *testing.T) {
	controllertest.Both(t, func(c *controllertest.Cluster) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: "default"}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: {}}
		quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
		controllertest.Create(c, quotas, quota)
		c.Until("quota counted", func() bool {
			q, _ := controllertest.Get[*corev1.ResourceQuota](c, quotas, "none")
			return len(q.Status.Hard) == 1
		})
		controllertest.Create(c, replicationControllers, replicationController("rc", 2))
		c.Until("ReplicaFailure", func() bool {
			rc, _ := controllertest.Get[*corev1.ReplicationController](c, replicationControllers, "rc")
			return len(rc.Status.Conditions) == 1 && rc.Status.Conditions[0].Type == corev1.ReplicationControllerReplicaFailure &&
				rc.Status.Conditions[0].Reason == "FailedCreate"
		})
		c.Until("Event", func() bool { return len(c.EventsOf("rc")) > 0 })
		c.Remove(quotas, "none", metav1.DeletePropagationBackground)
		replicasReady(c, "rc", 2)
	})
}
