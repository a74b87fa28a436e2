// Package storage holds the controllers of volumes and their claims.
package storage

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// claimProtection is the finalizer that admission adds to PersistentVolumeClaims.
const claimProtection = "kubernetes.io/pvc-protection"

var persistentVolumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

type claimProtector struct {
	client client.Client
	claims *client.Cache[*corev1.PersistentVolumeClaim]
	pods   *client.Cache[*corev1.Pod]
}

// PVCProtection removes the finalizer from PersistentVolumeClaims that are being deleted and that no pod uses.
func PVCProtection(env controller.Env) reconcile.Loop {
	r := claimProtector{env.Client, client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims), env.Caches.Pods()}
	return reconcile.Loop{
		Name:      "pvcprotection",
		Sources:   []reconcile.Source{reconcile.Watch(r.claims), reconcile.Map(r.pods, r.claimsOfChanged)},
		Reconcile: r.reconcile,
	}
}

// claimsOfChanged maps a changed or deleted pod to its claims.
func (r claimProtector) claimsOfChanged(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Added() {
		return nil
	}
	var keys []objects.Key
	for _, name := range claimsOf(ch.Old) {
		keys = append(keys, objects.Key{Namespace: ch.Old.Namespace, Name: name})
	}
	return keys
}

// claimsOf returns the names of the PersistentVolumeClaims of a pod's volumes.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

func (r claimProtector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	claim, ok := r.claims.Get(key)
	if !ok || claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, claimProtection) {
		return 0, nil
	}
	if used, err := r.used(ctx, claim); used || err != nil {
		return 0, err
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
	_, err := r.client.Update(ctx, client.In(persistentVolumeClaims, key), claim, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}

// used reports whether a pod uses a claim. The informer may lack a pod that was created before the claim was deleted, so that the API has the last
// word, as in Kubernetes.
func (r claimProtector) used(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if slices.ContainsFunc(r.pods.List(claim.Namespace, labels.Everything()), func(p *corev1.Pod) bool { return uses(p, claim) }) {
		return true, nil
	}
	list, err := r.client.List(ctx, client.Target{Resource: client.Pods, Namespace: claim.Namespace}, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(obj objects.Object) bool { return uses(obj.(*corev1.Pod), claim) }), nil
}

// uses reports whether a pod that is bound to a node and not terminal uses a claim.
func uses(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return p.Spec.NodeName != "" && !ended && slices.Contains(claimsOf(p), claim.Name)
}
