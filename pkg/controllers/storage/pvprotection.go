package storage

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// volumeProtection is the finalizer that admission adds to PersistentVolumes.
const volumeProtection = "kubernetes.io/pv-protection"

var persistentVolumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")

type volumeProtector struct {
	client  client.Client
	volumes *client.Cache[*corev1.PersistentVolume]
}

// PVProtection removes the finalizer from PersistentVolumes that are being deleted and not bound.
func PVProtection(env controller.Env) reconcile.Loop {
	r := volumeProtector{env.Client, client.CacheOf[*corev1.PersistentVolume](env.Caches, persistentVolumes)}
	return reconcile.Loop{Name: "pvprotection", Sources: []reconcile.Source{reconcile.Watch(r.volumes)}, Reconcile: r.reconcile}
}

func (r volumeProtector) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	v, ok := r.volumes.Get(key)
	if !ok || v.DeletionTimestamp == nil || v.Status.Phase == corev1.VolumeBound || !slices.Contains(v.Finalizers, volumeProtection) {
		return 0, nil
	}
	v = v.DeepCopy()
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == volumeProtection })
	_, err := r.client.Update(ctx, client.In(persistentVolumes, key), v, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}
