package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	persistentVolumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	persistentVolumes      = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
)

// errNotBound is the error of a claim without a volume.
var errNotBound = errors.New("is not bound")

const (
	// bindingTime is how long a claim may be unbound without an Event. A scheduler binds a pod once its claims name their volumes, before the
	// controller has written their phase. Kubernetes' kubelet has the time between two looks at its volumes, 0.3s, on an idle machine.
	bindingTime = time.Second
	// bindingRetry is the pause between attempts in bindingTime.
	bindingRetry = 100 * time.Millisecond
)

// isBinding reports whether a claim was found unbound for the first time less than bindingTime ago.
func (v *podVolumes) isBinding(err error) bool {
	if !errors.Is(err, errNotBound) {
		return false
	}
	now := v.clock().Now()
	if v.unbound.IsZero() {
		v.unbound = now
	}
	return now.Sub(v.unbound) < bindingTime
}

// claimOf returns the claim of a volume and the volume that it is bound to. It reads both from the API: a kubelet may get the claims and
// volumes of its pods, but not watch them.
func (k *Kubelet) claimOf(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	key := objects.Key{Namespace: pod.Namespace}
	if volume.PersistentVolumeClaim != nil {
		key.Name = volume.PersistentVolumeClaim.ClaimName
	} else {
		key.Name = ephemeral.VolumeClaimName(pod, volume)
	}
	obj, err := k.client.Get(ctx, client.In(persistentVolumeClaims, key), metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, nil, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, nil, fmt.Errorf("PVC %s %w", key, errNotBound)
	}
	if obj, err = k.client.Get(ctx, client.In(persistentVolumes, objects.Key{Name: claim.Spec.VolumeName}), metav1.GetOptions{}); err != nil {
		return nil, nil, err
	}
	return claim, obj.(*corev1.PersistentVolume), nil
}

// setUpClaim finds the path of the volume that a pod's claim is bound to.
func (v *podVolumes) setUpClaim(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	claim, pv, err := v.kubelet.claimOf(ctx, pod, volume)
	if err != nil {
		return err
	}
	path, err := volumePath(pv, claim)
	if err != nil {
		return err
	}
	if pv.Spec.Local != nil { // as in Kubernetes, not those of the type hostPath
		if err := ownershipOf(pod, isClaimReadOnly(volume)).applyOnce(path); err != nil {
			return err
		}
	}
	if v.claimed == nil {
		v.claimed = map[string]string{}
	}
	v.claimed[volume.Name] = path
	return nil
}

// volumePath returns the path of a volume on the host. It creates or verifies a hostPath according to its type.
func volumePath(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (string, error) {
	switch {
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID:
		return "", fmt.Errorf("PV %q is not bound to PVC %s/%s", v.Name, claim.Namespace, claim.Name)
	case v.Spec.VolumeMode != nil && *v.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return "", errors.New("block volumes are not supported by minikctl")
	case v.Spec.HostPath != nil:
		return v.Spec.HostPath.Path, checkHostPath(v.Spec.HostPath)
	case v.Spec.Local != nil:
		directory := corev1.HostPathDirectory
		return v.Spec.Local.Path, checkHostPath(&corev1.HostPathVolumeSource{Path: v.Spec.Local.Path, Type: &directory})
	}
	return "", errUnsupportedVolume
}

// isClaimReadOnly reports whether the pod can only read the volume of a claim.
func isClaimReadOnly(volume *corev1.Volume) bool {
	return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ReadOnly
}
