package controllers

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
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// quarantine is how long a node has to be gone before its pods go: it may be coming back.
const quarantine = 40 * time.Second

// podGC is the controller of pods that nobody ends any more.
type podGC struct {
	client client.Client
	clock  clock.Clock
	nodes  *client.Cache[*corev1.Node]
	pods   *client.Cache[*corev1.Pod]

	mu      sync.Mutex
	missing map[string]time.Time // nodes that pods are bound to and that are not there, since when
}

// PodGC deletes pods whose node is gone, and pods being deleted that never had one.
func PodGC(env Env) reconcile.Loop {
	r := &podGC{
		client: env.Client, clock: env.Clock, nodes: env.Caches.Nodes(), pods: env.Caches.Pods(), missing: map[string]time.Time{},
	}
	return reconcile.Loop{
		Name:      "podgc",
		Sources:   []reconcile.Source{reconcile.Map(r.nodes, r.left), reconcile.Map(r.pods, r.lost)},
		Reconcile: r.reconcile,
		Workers:   2,
	}
}

// left returns the pods of a node that is gone.
func (r *podGC) left(ch client.Change[*corev1.Node]) []objects.Key {
	if !ch.Deleted() {
		r.mu.Lock()
		delete(r.missing, ch.New.Name)
		r.mu.Unlock()
		return nil
	}
	var keys []objects.Key
	for _, p := range r.pods.ByIndex(onNode, ch.Old.Name) {
		keys = append(keys, keyOf(p))
	}
	return keys
}

// lost returns a pod that is bound to a node that is not there, or is being deleted without one.
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

// quarantined returns how long a missing node still has to come back; 0 also for a node that is there.
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

// end deletes a pod at once.
func (r *podGC) end(ctx context.Context, p *corev1.Pod) error {
	opts := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	_, err := r.client.Delete(ctx, client.In(client.Pods, keyOf(p)), opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, and perhaps another one of that name is there
	}
	return err
}

// disruption says why the cluster takes a pod away.
type disruption struct{ reason, message string }

// disrupt notes on a pod why it is about to be deleted; one whose end nobody is left to report becomes Failed.
func disrupt(ctx context.Context, c client.Client, p *corev1.Pod, d disruption, now time.Time) error {
	status := map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: d.reason, Message: d.message, LastTransitionTime: stamp(now),
	}}}
	if d.reason == "DeletionByPodGC" && !finished(p) {
		status["phase"] = corev1.PodFailed
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return err
	}
	t := client.In(client.Pods, keyOf(p)).Sub("status")
	_, err = c.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil // it is gone, and perhaps another one of that name is there
	}
	return err
}
