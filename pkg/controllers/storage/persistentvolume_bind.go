package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// preResizeCapacity is the annotation of a volume with its size before an expansion that its file system has not had yet.
const preResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

// bind completes the binding of a volume and a claim: the volume's claimRef, its phase, the claim's volumeName, and its
// status. It writes only what is missing.
func (r binder) bind(ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	bound, dirty, err := volume.GetBindVolumeToClaim(v, claim)
	if err != nil {
		return err
	}
	if dirty {
		if v, err = r.updateVolume(ctx, bound, ""); err != nil {
			return err
		}
	}
	if v, err = r.updateVolumePhase(ctx, v, corev1.VolumeBound, ""); err != nil {
		return err
	}
	if next, dirty := boundClaim(claim, v.Name); dirty {
		if claim, err = r.updateClaim(ctx, next, ""); err != nil {
			return err
		}
	}
	_, err = r.updateClaimStatus(ctx, claim, corev1.ClaimBound, v)
	return err
}

// boundClaim returns the claim with its volume, and whether that changes it.
func boundClaim(claim *corev1.PersistentVolumeClaim, volumeName string) (*corev1.PersistentVolumeClaim, bool) {
	completed := metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
	if completed && claim.Spec.VolumeName == volumeName {
		return claim, false
	}
	claim = claim.DeepCopy()
	if claim.Spec.VolumeName != volumeName {
		claim.Spec.VolumeName = volumeName
		if !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController) {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBoundByController, "yes")
		}
	}
	if !completed {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
	return claim, true
}

// unbind makes a volume available again. A claimRef that a user wrote stays, without its UID.
func (r binder) unbind(ctx context.Context, v *corev1.PersistentVolume) error {
	v = v.DeepCopy()
	if metav1.HasAnnotation(v.ObjectMeta, volume.AnnBoundByController) {
		v.Spec.ClaimRef = nil
		delete(v.Annotations, volume.AnnBoundByController)
	} else {
		v.Spec.ClaimRef.UID = ""
	}
	v, err := r.updateVolume(ctx, v, "")
	if err != nil {
		return err
	}
	_, err = r.updateVolumePhase(ctx, v, corev1.VolumeAvailable, "")
	return err
}

// updateVolumePhase writes the phase of a volume, unless it has it.
func (r binder) updateVolumePhase(ctx context.Context, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) (*corev1.PersistentVolume, error) {
	if v.Status.Phase == phase {
		return v, nil
	}
	v = v.DeepCopy()
	v.Status.Phase, v.Status.Message = phase, message
	return r.updateVolume(ctx, v, "status")
}

// fail sets the phase Failed with an event, unless the volume has it.
func (r binder) fail(ctx context.Context, v *corev1.PersistentVolume, reason, message string) error {
	if v.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	v, err := r.updateVolumePhase(ctx, v, corev1.VolumeFailed, message)
	if err != nil {
		return err
	}
	r.env.Events.Event(ctx, v, corev1.EventTypeWarning, reason, message)
	return nil
}

// updateClaimStatus writes the status of a claim, unless it has it. v is its volume, nil without one.
func (r binder) updateClaimStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	status, err := claimStatus(claim.Status, phase, v)
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return claim, nil
	}
	claim = claim.DeepCopy()
	claim.Status = status
	return r.updateClaim(ctx, claim, "status")
}

// claimStatus returns the status of a claim in a phase with a volume; nil without one. The capacity of a bound claim changes only
// with its phase: it is the resizer's.
func claimStatus(old corev1.PersistentVolumeClaimStatus, phase corev1.PersistentVolumeClaimPhase, v *corev1.PersistentVolume) (corev1.PersistentVolumeClaimStatus, error) {
	out := *old.DeepCopy()
	out.Phase = phase
	if v == nil {
		out.AccessModes, out.Capacity, out.CurrentVolumeAttributesClassName = nil, nil, nil
		return out, nil
	}
	out.AccessModes = slices.Clone(v.Spec.AccessModes)
	if old.Phase != phase {
		size, ok := v.Spec.Capacity[corev1.ResourceStorage]
		if !ok {
			return out, fmt.Errorf("PersistentVolume %q is without a storage capacity", v.Name)
		}
		if text, resized := v.Annotations[preResizeCapacity]; resized {
			if before, err := resource.ParseQuantity(text); err == nil {
				size = before
			}
			if out.Capacity == nil {
				out.Capacity = corev1.ResourceList{}
			}
			out.Capacity[corev1.ResourceStorage] = size
		} else if was, ok := old.Capacity[corev1.ResourceStorage]; !ok || was.Cmp(size) != 0 {
			out.Capacity = maps.Clone(v.Spec.Capacity)
		}
	}
	if old.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
		out.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
	}
	return out, nil
}
