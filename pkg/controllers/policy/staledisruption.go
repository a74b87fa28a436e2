package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// staleTimeout is how long a pod that is not being deleted keeps the condition DisruptionTarget.
const staleTimeout = 2 * time.Minute

type staleDisruption struct {
	client client.Client
	clock  clock.Clock
	pods   *client.Cache[*corev1.Pod]
}

// StaleDisruption sets the condition DisruptionTarget of a pod to False when the pod was not deleted within two minutes.
func StaleDisruption(env controller.Env) reconcile.Loop {
	r := &staleDisruption{env.Client, env.Clock, env.Caches.Pods()}
	return reconcile.Loop{
		Name: "staledisruption",
		Sources: []reconcile.Source{reconcile.Map(r.pods, func(ch client.Change[*corev1.Pod]) []objects.Key {
			if ch.Deleted() || disruptionTarget(ch.New) == nil {
				return nil
			}
			return []objects.Key{ch.Key()}
		})},
		Reconcile: r.reconcile,
		Workers:   controller.Workers,
	}
}

// disruptionTarget returns the condition of a disruption that may not happen. It is nil for pods that are being deleted or have
// ended, and for a disruption by the kubelet, which may take any time.
func disruptionTarget(p *corev1.Pod) *corev1.PodCondition {
	c := controller.PodCondition(p, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet || !controller.IsPodActive(p) {
		return nil
	}
	return c
}

func (r *staleDisruption) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	p, ok := r.pods.Get(key)
	if !ok {
		return 0, nil
	}
	c := disruptionTarget(p)
	if c == nil {
		return 0, nil
	}
	now := r.clock.Now()
	if left := c.LastTransitionTime.Add(staleTimeout).Sub(now); left > 0 {
		return left, nil
	}
	p = p.DeepCopy()
	*controller.PodCondition(p, corev1.DisruptionTarget) = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: p.Generation, LastTransitionTime: controller.WholeSeconds(now),
	}
	_, err := r.client.Update(ctx, client.In(client.Pods, key).Sub("status"), p, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}
