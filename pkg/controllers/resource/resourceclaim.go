// Package resource owns the controllers of the API group resource.k8s.io.
package resource

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/objects/resource"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	resourceClaims         = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	resourceClaimTemplates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
)

type resourceClaim struct {
	client client.Client
	claims *client.Cache[*resourcev1.ResourceClaim]
	pods   *client.Cache[*corev1.Pod]
}

// ResourceClaim removes the reservations of pods that will not run any more from ResourceClaims, deallocates the claims that no pod
// uses then, and deletes those that were made for such a pod.
func ResourceClaim(env controller.Env) reconcile.Loop {
	r := resourceClaim{
		client: env.Client, claims: client.CacheOf[*resourcev1.ResourceClaim](env.Caches, resourceClaims), pods: env.Caches.Pods(),
	}
	return reconcile.Loop{
		Name: "resourceclaim", Workers: controller.Workers,
		Sources:   []reconcile.Source{reconcile.Watch(r.claims), reconcile.Map(r.pods, unneeded)},
		Reconcile: r.reconcile,
	}
}

// unneeded maps a pod that will not run any more to its claims.
func unneeded(ch client.Change[*corev1.Pod]) []objects.Key {
	pod := ch.New
	if ch.Deleted() {
		pod = ch.Old
	} else if !isDone(pod) {
		return nil
	}
	var keys []objects.Key
	for name := range podref.ResourceClaims(pod) {
		keys = append(keys, objects.Key{Namespace: pod.Namespace, Name: name})
	}
	return keys
}

// isDone reports whether no container of a pod runs or will run.
func isDone(pod *corev1.Pod) bool {
	return controller.IsPodTerminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

func (r resourceClaim) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	claim, ok := r.claims.Get(key)
	if !ok {
		return 0, nil
	}
	remaining, err := r.remaining(ctx, claim)
	if err != nil {
		return 0, err
	}
	protected := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	switch {
	case len(remaining) < len(claim.Status.ReservedFor):
		err = r.release(ctx, claim.DeepCopy(), remaining)
	case protected && claim.DeletionTimestamp != nil && len(remaining) == 0:
		err = r.deallocate(ctx, claim.DeepCopy())
	}
	if err != nil || len(remaining) > 0 {
		return 0, err
	}
	return 0, r.removeGenerated(ctx, claim)
}

// remaining returns the reservations of a claim without those of pods that are gone, were replaced, or will not run any more.
func (r resourceClaim) remaining(ctx context.Context, claim *resourcev1.ResourceClaim) ([]resourcev1.ResourceClaimConsumerReference, error) {
	var out []resourcev1.ResourceClaimConsumerReference
	for _, ref := range claim.Status.ReservedFor {
		keep := true
		if ref.APIGroup == "" && ref.Resource == "pods" {
			var err error
			if keep, err = r.isNeeded(ctx, objects.Key{Namespace: claim.Namespace, Name: ref.Name}, ref); err != nil {
				return nil, err
			}
		}
		if keep {
			out = append(out, ref)
		}
	}
	return out, nil
}

// isNeeded reports whether the pod of a reservation may run. A pod that the cache does not have may be new, so the API server decides.
func (r resourceClaim) isNeeded(ctx context.Context, key objects.Key, ref resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if pod, ok := r.pods.Get(key); ok {
		return pod.UID == ref.UID && !isDone(pod), nil
	}
	obj, err := r.client.Get(ctx, client.In(client.Pods, key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && obj.GetUID() == ref.UID, err
}

// release stores the remaining reservations. A claim that the scheduler has allocated is deallocated with the last of them.
func (r resourceClaim) release(ctx context.Context, claim *resourcev1.ResourceClaim, remaining []resourcev1.ResourceClaimConsumerReference) error {
	resource.SetReserved(claim, remaining)
	claim, err := r.updateStatus(ctx, claim)
	if err != nil || claim.Status.Allocation != nil {
		return err
	}
	return r.unprotect(ctx, claim)
}

// deallocate removes the allocation and the finalizer of a claim that is being deleted.
func (r resourceClaim) deallocate(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if claim.Status.Allocation != nil {
		claim.Status.Allocation = nil
		var err error
		if claim, err = r.updateStatus(ctx, claim); err != nil {
			return err
		}
	}
	return r.unprotect(ctx, claim)
}

func (r resourceClaim) updateStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	obj, err := r.client.Update(ctx, client.In(resourceClaims, controller.KeyOf(claim)).Sub("status"), claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

// unprotect removes the finalizer of a claim, if it has it.
func (r resourceClaim) unprotect(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	_, err := r.client.Update(ctx, client.In(resourceClaims, controller.KeyOf(claim)), claim, metav1.UpdateOptions{})
	return controller.IgnoreNotFound(err)
}

// removeGenerated deletes a claim that was made for a pod that will not run any more. The garbage collector deletes those of pods that
// are gone.
func (r resourceClaim) removeGenerated(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || claim.DeletionTimestamp != nil {
		return nil
	}
	pod, ok := r.pods.Get(objects.Key{Namespace: claim.Namespace, Name: owner.Name})
	if !ok || pod.UID == owner.UID && !isDone(pod) {
		return nil
	}
	_, err := r.client.Delete(ctx, client.In(resourceClaims, controller.KeyOf(claim)), metav1.DeleteOptions{})
	if err = controller.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete unused generated claim %s: %w", controller.KeyOf(claim), err)
	}
	return nil
}
