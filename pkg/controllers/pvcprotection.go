package controllers

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// claimProtection is the finalizer that admission puts on claims.
const claimProtection = "kubernetes.io/pvc-protection"

var persistentVolumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

// claimProtector is the controller of claims that are to go.
type claimProtector struct {
	client client.Client
	claims *client.Cache[*corev1.PersistentVolumeClaim]
	pods   *client.Cache[*corev1.Pod]
}

// ClaimProtection lets claims that are being deleted go once no pod uses them.
func ClaimProtection(env Env) reconcile.Loop {
	r := claimProtector{env.Client, client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims), env.Caches.Pods()}
	return reconcile.Loop{
		Name:      "pvcprotection",
		Sources:   []reconcile.Source{reconcile.Watch(r.claims), reconcile.Map(r.pods, r.left)},
		Reconcile: r.reconcile,
	}
}

// left returns the claims of a pod that has changed or gone.
func (r claimProtector) left(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Added() {
		return nil
	}
	var keys []objects.Key
	for _, name := range claimsOf(ch.Old) {
		keys = append(keys, objects.Key{Namespace: ch.Old.Namespace, Name: name})
	}
	return keys
}

// claimsOf returns the names of the claims that a pod's volumes are.
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
	if !ok || claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, claimProtection) || r.used(claim) {
		return 0, nil
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
	_, err := r.client.Update(ctx, client.In(persistentVolumeClaims, key), claim, metav1.UpdateOptions{})
	return 0, unlessGone(err)
}

// used reports whether a pod that is on a node and has not ended uses a claim.
func (r claimProtector) used(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(r.pods.List(claim.Namespace, labels.Everything()), func(p *corev1.Pod) bool {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		return p.Spec.NodeName != "" && !ended && slices.Contains(claimsOf(p), claim.Name)
	})
}

// unlessGone returns err unless it says that there is nothing left to do.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
