package storage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

type ephemeralVolume struct {
	env    controller.Env
	pods   *client.Cache[*corev1.Pod]
	claims *client.Cache[*corev1.PersistentVolumeClaim]
}

// EphemeralVolume creates the PersistentVolumeClaims of the ephemeral volumes of pods. The garbage collector deletes a claim with
// its pod, which owns it.
func EphemeralVolume(env controller.Env) reconcile.Loop {
	r := ephemeralVolume{env, env.Caches.Pods(), client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims)}
	return reconcile.Loop{
		Name: "ephemeralvolume", Workers: controller.Workers,
		Sources: []reconcile.Source{
			reconcile.Map(r.pods, podWithEphemeral), reconcile.Map(r.claims, r.podsOfDeleted),
		},
		Reconcile: r.reconcile,
	}
}

// podWithEphemeral returns the key of a new pod with ephemeral volumes.
func podWithEphemeral(ch client.Change[*corev1.Pod]) []objects.Key {
	if ch.Deleted() || !ch.Added() && ch.Old.UID == ch.New.UID {
		return nil // the volumes of a pod don't change
	}
	for i := range ch.New.Spec.Volumes {
		if ch.New.Spec.Volumes[i].Ephemeral != nil {
			return []objects.Key{ch.Key()}
		}
	}
	return nil
}

// podsOfDeleted maps a deleted claim to the pods that use it: one of them may need a new one.
func (r ephemeralVolume) podsOfDeleted(ch client.Change[*corev1.PersistentVolumeClaim]) []objects.Key {
	if !ch.Deleted() {
		return nil
	}
	var keys []objects.Key
	for _, p := range r.pods.ByIndex(podsByClaim, ch.Key().String()) {
		keys = append(keys, keyOf(p))
	}
	return keys
}

func (r ephemeralVolume) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	pod, ok := r.pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil {
		return 0, nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		if err := r.ensureClaim(ctx, pod, v); err != nil {
			r.env.Events.Event(ctx, pod, corev1.EventTypeWarning, "FailedBinding", fmt.Sprintf("ephemeral volume %s: %v", v.Name, err))
			return 0, fmt.Errorf("pod %s, ephemeral volume %s: %w", key, v.Name, err)
		}
	}
	return 0, nil
}

// ensureClaim creates the claim of a volume. It returns an error if another claim has its name.
func (r ephemeralVolume) ensureClaim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	name := ephemeral.VolumeClaimName(pod, v)
	if claim, ok := r.claims.Get(objects.Key{Namespace: pod.Namespace, Name: name}); ok {
		return ephemeral.VolumeIsForPod(pod, claim)
	}
	template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pod.Namespace, Annotations: template.Annotations, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}},
		Spec: template.Spec,
	}
	_, err := r.env.Client.Create(ctx, client.Target{Resource: persistentVolumeClaims, Namespace: pod.Namespace}, claim, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
