package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/storage"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type expander struct {
	env     controller.Env
	claims  *client.Cache[*corev1.PersistentVolumeClaim]
	volumes *client.Cache[*corev1.PersistentVolume]
}

// VolumeExpand expands the volumes of bound claims that request more than they have. Those of the directory provisioner need nothing but
// their new size; others wait for the resizer of their driver.
func VolumeExpand(env controller.Env) reconcile.Loop {
	r := expander{
		env: env, claims: client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims),
		volumes: client.CacheOf[*corev1.PersistentVolume](env.Caches, persistentVolumes),
	}
	return reconcile.Loop{Name: "volumeexpand", Sources: []reconcile.Source{reconcile.Map(r.claims, resized)}, Reconcile: r.reconcile}
}

// resized returns the key of a claim whose requested or actual size has changed.
func resized(ch client.Change[*corev1.PersistentVolumeClaim]) []objects.Key {
	if ch.Deleted() || !mustExpand(ch.New) {
		return nil
	}
	if !ch.Added() && mustExpand(ch.Old) && ch.Old.Spec.Resources.Requests.Storage().Equal(*ch.New.Spec.Resources.Requests.Storage()) {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// mustExpand reports whether a bound claim requests more than it has.
func mustExpand(c *corev1.PersistentVolumeClaim) bool {
	return c.Status.Phase == corev1.ClaimBound && c.Spec.Resources.Requests.Storage().Cmp(*c.Status.Capacity.Storage()) > 0
}

func (r expander) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	claim, ok := r.claims.Get(key)
	if !ok || !mustExpand(claim) {
		return 0, nil
	}
	v, ok := r.volumes.Get(objects.Key{Name: claim.Spec.VolumeName})
	if !ok || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
		return 0, fmt.Errorf("persistent Volume is not bound to PVC being updated : %s", key)
	}
	if v.Annotations[volume.AnnDynamicallyProvisioned] != storage.DirProvisioner {
		r.env.Events.Event(ctx, claim, corev1.EventTypeWarning, "ExternalExpanding", "waiting for an external controller to expand this PVC")
		return 0, nil
	}
	return 0, r.expand(ctx, claim, v)
}

// expand writes the new size to the volume, and then to the status of the claim.
func (r expander) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) error {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if v.Spec.Capacity.Storage().Cmp(size) < 0 {
		r.env.Events.Event(ctx, claim, corev1.EventTypeNormal, "Resizing", "External resizer is resizing volume "+v.Name)
		v = v.DeepCopy()
		v.Spec.Capacity[corev1.ResourceStorage] = size
		if _, err := r.env.Client.Update(ctx, client.In(persistentVolumes, keyOf(v)), v, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	claim = expandedClaim(claim)
	if _, err := r.env.Client.Update(ctx, client.In(persistentVolumeClaims, keyOf(claim)).Sub("status"), claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	r.env.Events.Event(ctx, claim, corev1.EventTypeNormal, "VolumeResizeSuccessful", "Resize volume succeeded")
	return nil
}

// expandedClaim returns a claim with the size that it requests, and without the conditions and states of an expansion.
func expandedClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: size}
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimResizing || c.Type == corev1.PersistentVolumeClaimFileSystemResizePending ||
			c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError
	})
	return claim
}
