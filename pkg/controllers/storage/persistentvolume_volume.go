package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// volumeStep is the next step of a volume.
type volumeStep int

const (
	available volumeStep = iota // set the phase Available
	reclaim                     // the claim is gone: set the phase Released and reclaim the volume
	mismatch                    // the claim that the volume names has another volumeMode
	offer                       // reconcile the claim, which has no volume yet
	bound                       // set the phase Bound
	release                     // the claim has another volume: make this one available again
)

// planVolume decides the next step of a volume. claim is the one that the volume names, nil if it does not exist or has
// another UID.
func planVolume(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) volumeStep {
	switch {
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "":
		return available
	case claim == nil:
		return reclaim
	case claim.Spec.VolumeName == "" && volume.CheckVolumeModeMismatches(&claim.Spec, &v.Spec):
		return mismatch
	case claim.Spec.VolumeName == "":
		return offer
	case claim.Spec.VolumeName == v.Name:
		return bound
	case metav1.HasAnnotation(v.ObjectMeta, volume.AnnDynamicallyProvisioned) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return reclaim // it was made for this claim, and nothing else will use it
	}
	return release
}

// syncVolume carries out the plan of a volume.
func (r binder) syncVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	v, err := r.annotateMigratedVolume(ctx, v)
	if err != nil {
		return err
	}
	claim, err := r.claimOfVolume(ctx, v)
	if err != nil {
		return err
	}
	switch planVolume(v, claim) {
	case available:
		_, err = r.updateVolumePhase(ctx, v, corev1.VolumeAvailable, "")
	case bound:
		_, err = r.updateVolumePhase(ctx, v, corev1.VolumeBound, "")
	case offer:
		_, err = r.syncClaim(ctx, claim)
	case mismatch:
		r.env.Events.Event(ctx, v, corev1.EventTypeWarning, "VolumeMismatch",
			fmt.Sprintf("Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name))
		r.env.Events.Event(ctx, claim, corev1.EventTypeWarning, "VolumeMismatch",
			fmt.Sprintf("Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name))
	case release:
		err = r.unbind(ctx, v)
	case reclaim:
		if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
			if v, err = r.updateVolumePhase(ctx, v, corev1.VolumeReleased, ""); err != nil {
				return err
			}
		}
		err = r.reclaim(ctx, v)
	}
	return err
}

// claimOfVolume returns the claim that a volume is bound to; nil if there is none or if it has been replaced by another of the same name.
func (r binder) claimOfVolume(ctx context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return nil, nil
	}
	claim, _ := r.claims.Get(claimOf(v))
	released := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	if claim == nil && !released || claim != nil && claim.UID != v.Spec.ClaimRef.UID {
		var err error
		if claim, err = r.latestClaim(ctx, claimOf(v)); err != nil {
			return nil, err
		}
	}
	if claim == nil || claim.UID != v.Spec.ClaimRef.UID {
		return nil, nil
	}
	return claim, nil
}
