package storage

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// attributesProtection is the finalizer of VolumeAttributesClasses.
const attributesProtection = "kubernetes.io/vac-protection"

var volumeAttributesClasses = storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")

type attributesProtector struct {
	client  client.Client
	classes *client.Cache[*storagev1.VolumeAttributesClass]
	claims  *client.Cache[*corev1.PersistentVolumeClaim]
	volumes *client.Cache[*corev1.PersistentVolume]
}

var (
	// claimsByAttributes lists claims by the VolumeAttributesClasses that they name.
	claimsByAttributes = client.NewIndex(attributesOfClaim)
	// volumesByAttributes lists volumes by their VolumeAttributesClass.
	volumesByAttributes = client.NewIndex(attributesOfVolume)
)

// VACProtection adds a finalizer to VolumeAttributesClasses, and removes it from those that are being deleted and that no claim or
// volume uses.
func VACProtection(env controller.Env) reconcile.Loop {
	r := attributesProtector{
		client: env.Client, classes: client.CacheOf[*storagev1.VolumeAttributesClass](env.Caches, volumeAttributesClasses),
		claims:  client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims),
		volumes: client.CacheOf[*corev1.PersistentVolume](env.Caches, persistentVolumes),
	}
	return reconcile.Loop{
		Name: "vacprotection",
		Sources: []reconcile.Source{
			reconcile.Watch(r.classes), reconcile.Map(r.claims, dropped(attributesOfClaim)), reconcile.Map(r.volumes, dropped(attributesOfVolume)),
		},
		Reconcile: r.reconcile,
	}
}

// attributesOfClaim returns the classes that a claim requests, has, or is being changed to.
func attributesOfClaim(c *corev1.PersistentVolumeClaim) []string {
	names := []string{deref(c.Spec.VolumeAttributesClassName), deref(c.Status.CurrentVolumeAttributesClassName)}
	if c.Status.ModifyVolumeStatus != nil {
		names = append(names, c.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func attributesOfVolume(v *corev1.PersistentVolume) []string {
	if name := deref(v.Spec.VolumeAttributesClassName); name != "" {
		return []string{name}
	}
	return nil
}

// dropped maps a change to the classes that its object does not use any more.
func dropped[T objects.Object](used func(T) []string) func(client.Change[T]) []objects.Key {
	return func(ch client.Change[T]) []objects.Key {
		if ch.Added() {
			return nil
		}
		var now []string
		if !ch.Deleted() {
			now = used(ch.New)
		}
		var keys []objects.Key
		for _, name := range used(ch.Old) {
			if !slices.Contains(now, name) {
				keys = append(keys, objects.Key{Name: name})
			}
		}
		return keys
	}
}

func (r attributesProtector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	class, ok := r.classes.Get(key)
	if !ok {
		return 0, nil
	}
	has, deleted := slices.Contains(class.Finalizers, attributesProtection), class.DeletionTimestamp != nil
	if has != deleted {
		return 0, nil
	}
	if deleted && len(r.claims.ByIndex(claimsByAttributes, key.Name))+len(r.volumes.ByIndex(volumesByAttributes, key.Name)) > 0 {
		return 0, nil
	}
	class = class.DeepCopy()
	if deleted {
		class.Finalizers = slices.DeleteFunc(class.Finalizers, func(f string) bool { return f == attributesProtection })
	} else {
		class.Finalizers = append(class.Finalizers, attributesProtection)
	}
	_, err := r.client.Update(ctx, client.In(volumeAttributesClasses, key), class, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}
