// Package scheduling holds the controller of PodGroups.
package scheduling

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// protection is the finalizer that admission adds to PodGroups.
const protection = schedulingv1alpha2.GroupName + "/podgroup-protection"

var podGroups = schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")

// byGroup finds the pods of a PodGroup by NAMESPACE/NAME.
var byGroup = client.NewIndex(func(pod *corev1.Pod) []string {
	if key, ok := podref.PodGroup(pod); ok {
		return []string{key.String()}
	}
	return nil
})

type protector struct {
	client client.Client
	groups *client.Cache[*schedulingv1alpha2.PodGroup]
	pods   *client.Cache[*corev1.Pod]
}

// PodGroupProtection removes the finalizer from PodGroups that are being deleted and that no pod which has not ended refers to.
func PodGroupProtection(env controller.Env) reconcile.Loop {
	r := protector{env.Client, client.CacheOf[*schedulingv1alpha2.PodGroup](env.Caches, podGroups), env.Caches.Pods()}
	return reconcile.Loop{
		Name:      "podgroupprotection",
		Sources:   []reconcile.Source{reconcile.Watch(r.groups), reconcile.Map(r.pods, groupOfChanged)},
		Reconcile: r.reconcile,
	}
}

// groupOfChanged maps a pod that has ended or was deleted to its PodGroup.
func groupOfChanged(ch client.Change[*corev1.Pod]) []objects.Key {
	pod := ch.Old
	if !ch.Deleted() {
		pod = ch.New
		if !ended(pod) {
			return nil
		}
	}
	if key, ok := podref.PodGroup(pod); ok {
		return []objects.Key{key}
	}
	return nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (r protector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	g, ok := r.groups.Get(key)
	if !ok || g.DeletionTimestamp == nil || !slices.Contains(g.Finalizers, protection) {
		return 0, nil
	}
	if slices.ContainsFunc(r.pods.ByIndex(byGroup, key.String()), func(p *corev1.Pod) bool { return !ended(p) }) {
		return 0, nil
	}
	g = g.DeepCopy()
	g.Finalizers = slices.DeleteFunc(g.Finalizers, func(f string) bool { return f == protection })
	_, err := r.client.Update(ctx, client.In(podGroups, key), g, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}
