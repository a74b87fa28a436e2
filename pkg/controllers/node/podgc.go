package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// quarantine is how long a node must be gone before its pods are deleted: it may register again.
const quarantine = 40 * time.Second

type podGC struct {
	client client.Client
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu      sync.Mutex
	missing map[string]time.Time // when nodes that have bound pods were first found missing
}

// PodGC deletes pods whose node is gone, and pods that are being deleted and have no node: no kubelet does it.
func PodGC(env controller.Env) reconcile.Loop {
	r := &podGC{
		client: env.Client, clock: env.Clock, nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), missing: map[string]time.Time{},
	}
	return reconcile.Loop{
		Name:      "podgc",
		Sources:   []reconcile.Source{reconcile.Map(r.nodes, r.podsOfDeleted), reconcile.Map(r.pods, r.lost)},
		Reconcile: r.reconcile,
		Workers:   2,
	}
}

// podsOfDeleted maps a deleted node to its pods.
func (r *podGC) podsOfDeleted(ch client.Change[*corev1.Node]) []objects.Key {
	if !ch.Deleted() {
		r.mu.Lock()
		delete(r.missing, ch.New.Name)
		r.mu.Unlock()
		return nil
	}
	var keys []objects.Key
	for _, p := range r.pods.ByIndex(controller.PodsByNode, ch.Old.Name) {
		keys = append(keys, controller.KeyOf(p))
	}
	return keys
}

// lost maps a change to the pod if its node does not exist, or if it is being deleted and has no node.
func (r *podGC) lost(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() || ch.New.Spec.NodeName == "" && ch.New.DeletionTimestamp == nil {
		return nil
	}
	if ch.New.Spec.NodeName != "" {
		if !ch.Added() && ch.Old.Spec.NodeName == ch.New.Spec.NodeName {
			return nil
		}
		if _, ok := r.nodes.Get(objects.Key{Name: ch.New.Spec.NodeName}); ok {
			return nil
		}
	}
	return []objects.Key{ch.Key()}
}

func (r *podGC) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	p, ok := r.pods.Get(key)
	if !ok {
		return 0, nil
	}
	if p.Spec.NodeName == "" {
		if p.DeletionTimestamp == nil {
			return 0, nil
		}
		return 0, r.end(ctx, p)
	}
	if left := r.quarantined(p.Spec.NodeName); left > 0 {
		return left, nil
	}
	_, err := r.client.Get(ctx, client.Target{Resource: client.Nodes, Name: p.Spec.NodeName}, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err := disrupt(ctx, r.client, p, disruption{"DeletionByPodGC", "PodGC: node no longer exists"}, r.clock.Now()); err != nil {
		return 0, err
	}
	return 0, r.end(ctx, p)
}

// quarantined returns how long the quarantine of a missing node still lasts, 0 for a node that exists.
func (r *podGC) quarantined(node string) time.Duration {
	if _, ok := r.nodes.Get(objects.Key{Name: node}); ok {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	since, ok := r.missing[node]
	if !ok {
		since = r.clock.Now()
		r.missing[node] = since
	}
	return max(0, since.Add(quarantine).Sub(r.clock.Now()))
}

// end deletes a pod without a grace period.
func (r *podGC) end(ctx context.Context, p *corev1.Pod) error {
	opts := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	_, err := r.client.Delete(ctx, client.In(client.Pods, controller.KeyOf(p)), opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone; another one may have its name
	}
	return err
}

// disruption is the reason of the condition DisruptionTarget.
type disruption struct{ reason, message string }

// disrupt sets the condition DisruptionTarget of a pod that will be deleted. A pod whose node is gone becomes Failed too: no
// kubelet can report its end.
func disrupt(ctx context.Context, c client.Client, p *corev1.Pod, d disruption, now time.Time) error {
	status := map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: d.reason, Message: d.message, LastTransitionTime: controller.WholeSeconds(now),
	}}}
	if d.reason == "DeletionByPodGC" && !controller.IsPodTerminal(p) {
		status["phase"] = corev1.PodFailed
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return err
	}
	t := client.In(client.Pods, controller.KeyOf(p)).Sub("status")
	_, err = c.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil // the pod is gone; another one may have its name
	}
	return err
}
