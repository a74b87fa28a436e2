package storage

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// pendingResync is the interval at which a claim that is not bound is reconciled again: Kubernetes' resync period of the
// binder. Each time the binder repeats the event that says what the claim waits for.
const pendingResync = 15 * time.Second

var storageClasses = storagev1.SchemeGroupVersion.WithResource("storageclasses")

// binder binds PersistentVolumeClaims to PersistentVolumes. The keys of its loop are claims, and volumes, which have no
// namespace. One worker reconciles both: two claims must not choose the same volume.
//
// A binding has two directions, pv.spec.claimRef and pvc.spec.volumeName, which are written in this order. Each step is
// repeated until it holds, so that a binder that was interrupted, or that a user's write has overtaken, completes it later.
type binder struct {
	env     controller.Env
	claims  *client.Cache[*corev1.PersistentVolumeClaim]
	volumes *client.Cache[*corev1.PersistentVolume]
	classes *client.Cache[*storagev1.StorageClass]
	pods    *client.Cache[*corev1.Pod]
}

// PersistentVolume binds claims and volumes to each other, keeps their phases, requests the provisioning of volumes, and
// reclaims volumes whose claim is deleted.
func PersistentVolume(env controller.Env) reconcile.Loop {
	r := binder{
		env: env, pods: env.Caches.Pods(),
		claims:  client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims),
		volumes: client.CacheOf[*corev1.PersistentVolume](env.Caches, persistentVolumes),
		classes: client.CacheOf[*storagev1.StorageClass](env.Caches, storageClasses),
	}
	return reconcile.Loop{
		Name: "persistentvolume",
		Sources: []reconcile.Source{
			reconcile.Watch(r.claims), reconcile.Map(r.claims, r.volumesOfChanged),
			reconcile.Watch(r.volumes), reconcile.Map(r.volumes, r.claimsOfVolume),
			reconcile.Map(r.classes, r.claimsOfClass), reconcile.Map(r.pods, recycledVolume),
		},
		Reconcile: r.reconcile,
	}
}

var (
	// unboundByClass lists the claims without a volume by their class.
	unboundByClass = client.NewIndex(func(c *corev1.PersistentVolumeClaim) []string {
		if c.Spec.VolumeName != "" || metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted) {
			return nil
		}
		return []string{volume.GetPersistentVolumeClaimClass(c)}
	})
	// claimsByVolume lists claims by the volume that they name.
	claimsByVolume = client.NewIndex(func(c *corev1.PersistentVolumeClaim) []string {
		if c.Spec.VolumeName == "" {
			return nil
		}
		return []string{c.Spec.VolumeName}
	})
	// freeByClass lists the volumes that name no claim by their class.
	freeByClass = client.NewIndex(func(v *corev1.PersistentVolume) []string {
		if v.Spec.ClaimRef != nil {
			return nil
		}
		return []string{volume.GetPersistentVolumeClass(v)}
	})
	// volumesByClaim lists volumes by the claim that they name.
	volumesByClaim = client.NewIndex(func(v *corev1.PersistentVolume) []string {
		if v.Spec.ClaimRef == nil {
			return nil
		}
		return []string{claimOf(v).String()}
	})
	// podsByClaim lists pods by the claims that they use.
	podsByClaim = client.NewIndex(func(p *corev1.Pod) []string {
		var keys []string
		for _, name := range claimsOf(p) {
			keys = append(keys, objects.Key{Namespace: p.Namespace, Name: name}.String())
		}
		return keys
	})
)

// claimOf returns the key of the claim that a volume names.
func claimOf(v *corev1.PersistentVolume) objects.Key {
	return objects.Key{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}
}

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// volumesOfChanged maps a claim that was deleted, replaced or bound otherwise to the volumes that may now be free.
func (r binder) volumesOfChanged(ch client.Change[*corev1.PersistentVolumeClaim]) []objects.Key {
	if ch.Added() || !ch.Deleted() && ch.Old.UID == ch.New.UID && ch.Old.Spec.VolumeName == ch.New.Spec.VolumeName {
		return nil
	}
	var keys []objects.Key
	if ch.Old.Spec.VolumeName != "" {
		keys = append(keys, objects.Key{Name: ch.Old.Spec.VolumeName})
	}
	for _, v := range r.volumes.ByIndex(volumesByClaim, ch.Key().String()) {
		keys = append(keys, keyOf(v))
	}
	return keys
}

// claimsOfVolume maps a changed volume to the claims that it names, that name it, or that it may satisfy.
func (r binder) claimsOfVolume(ch client.Change[*corev1.PersistentVolume]) []objects.Key {
	var keys []objects.Key
	for _, c := range r.claims.ByIndex(claimsByVolume, ch.Key().Name) {
		keys = append(keys, keyOf(c))
	}
	for _, v := range []*corev1.PersistentVolume{ch.Old, ch.New} {
		if v != nil && v.Spec.ClaimRef != nil {
			keys = append(keys, claimOf(v))
		}
	}
	if !ch.Deleted() && ch.New.Spec.ClaimRef == nil && ch.New.Status.Phase == corev1.VolumeAvailable {
		for _, c := range r.claims.ByIndex(unboundByClass, volume.GetPersistentVolumeClass(ch.New)) {
			keys = append(keys, keyOf(c))
		}
	}
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

// claimsOfClass maps a changed StorageClass to the claims without a volume that have it, or that have no class and may get it.
func (r binder) claimsOfClass(ch client.Change[*storagev1.StorageClass]) []objects.Key {
	if ch.Deleted() {
		return nil
	}
	var keys []objects.Key
	for _, class := range []string{"", ch.New.Name} {
		for _, c := range r.claims.ByIndex(unboundByClass, class) {
			keys = append(keys, keyOf(c))
		}
	}
	return keys
}

func (r binder) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	if key.Namespace == "" {
		if v, ok := r.volumes.Get(key); ok {
			return 0, r.syncVolume(ctx, v)
		}
		return 0, nil
	}
	claim, ok := r.claims.Get(key)
	if !ok {
		return 0, nil
	}
	return r.syncClaim(ctx, claim)
}

// latestClaim returns a claim as the API server has it, nil if it does not exist. The caches of claims and volumes are not
// synchronized with each other: a volume may name a claim that the cache does not have yet.
func (r binder) latestClaim(ctx context.Context, key objects.Key) (*corev1.PersistentVolumeClaim, error) {
	obj, err := r.env.Client.Get(ctx, client.In(persistentVolumeClaims, key), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.PersistentVolumeClaim), nil
}

// latestVolume is like latestClaim, for a volume.
func (r binder) latestVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	obj, err := r.env.Client.Get(ctx, client.In(persistentVolumes, objects.Key{Name: name}), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.PersistentVolume), nil
}

// updateVolume writes a volume, its status for the subresource "status", and puts the result into the cache: the next key may
// choose the same volume.
func (r binder) updateVolume(ctx context.Context, v *corev1.PersistentVolume, subresource string) (*corev1.PersistentVolume, error) {
	out, err := r.env.Client.Update(ctx, client.In(persistentVolumes, keyOf(v)).Sub(subresource), v, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	v = out.(*corev1.PersistentVolume)
	r.volumes.Put(v)
	return v, nil
}

// updateClaim is like updateVolume, for a claim.
func (r binder) updateClaim(ctx context.Context, c *corev1.PersistentVolumeClaim, subresource string) (*corev1.PersistentVolumeClaim, error) {
	out, err := r.env.Client.Update(ctx, client.In(persistentVolumeClaims, keyOf(c)).Sub(subresource), c, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	c = out.(*corev1.PersistentVolumeClaim)
	r.claims.Put(c)
	return c, nil
}
