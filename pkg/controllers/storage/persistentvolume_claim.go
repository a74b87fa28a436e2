package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// event is an Event about an object.
type event struct{ kind, reason, message string }

// claimPlan is the next step of a claim. At most one of bind, class and provision is set.
type claimPlan struct {
	bind      *corev1.PersistentVolume // bind this volume
	class     string                   // write this default class
	provision bool                     // request a volume from the class's provisioner
	phase     corev1.PersistentVolumeClaimPhase
	event     event // with the phase Lost recorded only when the phase changes
	err       error // the state is not one that the binder made; try again later
}

// claimView is what the plan of a claim depends on.
type claimView struct {
	named        *corev1.PersistentVolume // the volume that the claim names; nil if it does not exist
	match        *corev1.PersistentVolume // the best volume for a claim that names none
	delay        bool                     // the class binds when the first pod is scheduled
	defaultClass string
	waiting      []string // the names of the pods that use the claim and have no node
}

// planClaim decides the next step of a claim.
func planClaim(claim *corev1.PersistentVolumeClaim, see claimView) claimPlan {
	switch completed := metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted); {
	case completed:
		return planBoundClaim(claim, see.named)
	case claim.Spec.VolumeName != "":
		return planPreboundClaim(claim, see.named)
	case see.match != nil:
		return claimPlan{bind: see.match}
	case !volume.PersistentVolumeClaimHasClass(claim) && see.defaultClass != "":
		return claimPlan{class: see.defaultClass}
	case see.delay && !volume.IsDelayBindingProvisioning(claim):
		return claimPlan{phase: corev1.ClaimPending, event: waitEvent(see.waiting)}
	case volume.GetPersistentVolumeClaimClass(claim) != "":
		return claimPlan{provision: true}
	}
	return claimPlan{phase: corev1.ClaimPending, event: event{
		corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set"}}
}

// waitEvent is the event of a claim that is bound when a pod that uses it is scheduled.
func waitEvent(pods []string) event {
	switch len(pods) {
	case 0:
		return event{corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding"}
	case 1:
		return event{corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pod " + pods[0] + " to be scheduled"}
	}
	return event{corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pods " + strings.Join(pods, ",") + " to be scheduled"}
}

// planPreboundClaim decides for a claim that names its volume and was not bound before.
func planPreboundClaim(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) claimPlan {
	switch {
	case v == nil:
		return claimPlan{phase: corev1.ClaimPending}
	case v.Spec.ClaimRef == nil:
		if why := unsatisfied(v, claim); why != "" {
			return claimPlan{phase: corev1.ClaimPending, event: event{
				corev1.EventTypeWarning, "VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", v.Name, why)}}
		}
		return claimPlan{bind: v}
	case volume.IsVolumeBoundToClaim(v, claim):
		return claimPlan{bind: v}
	}
	taken := event{corev1.EventTypeWarning, "FailedBinding", fmt.Sprintf("volume %q already bound to a different claim.", v.Name)}
	if metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController) {
		return claimPlan{event: taken, err: fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %q", keyOf(claim), v.Name, claimOf(v))}
	}
	return claimPlan{phase: corev1.ClaimPending, event: taken}
}

// planBoundClaim decides for a claim that was bound.
func planBoundClaim(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) claimPlan {
	lost := func(reason, message string) claimPlan {
		return claimPlan{phase: corev1.ClaimLost, event: event{corev1.EventTypeWarning, reason, message}}
	}
	switch {
	case claim.Spec.VolumeName == "":
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case v == nil:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == claim.UID:
		return claimPlan{bind: v}
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

// unsatisfied returns why a volume can't serve a claim that names it; "" if it can.
func unsatisfied(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	size, requested := v.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case size.Value() < requested.Value():
		return "requested PV is too small"
	case volume.GetPersistentVolumeClass(v) != volume.GetPersistentVolumeClaimClass(claim):
		return "storageClassName does not match"
	case deref(v.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case volume.CheckVolumeModeMismatches(&claim.Spec, &v.Spec):
		return "incompatible volumeMode"
	case !volume.CheckAccessModes(claim, v):
		return "incompatible accessMode"
	}
	return ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// syncClaim carries out the plan of a claim. A claim that is not bound is reconciled again after pendingResync.
func (r binder) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	claim, err := r.annotateMigratedClaim(ctx, claim)
	if err != nil {
		return 0, err
	}
	see, class, err := r.view(ctx, claim)
	if err != nil {
		return 0, err
	}
	plan := planClaim(claim, see)
	switch {
	case plan.bind != nil:
		return 0, r.bind(ctx, plan.bind, claim)
	case plan.class != "":
		claim = claim.DeepCopy()
		claim.Spec.StorageClassName = &plan.class
		_, err := r.updateClaim(ctx, claim, "")
		return 0, err
	case plan.provision:
		return pendingResync, r.requestVolume(ctx, claim, class)
	case plan.phase == corev1.ClaimLost && claim.Status.Phase == corev1.ClaimLost:
		return 0, nil
	}
	after := pendingResync
	if plan.phase == corev1.ClaimLost {
		after = 0
		if claim, err = r.updateClaimStatus(ctx, claim, plan.phase, nil); err != nil {
			return 0, err
		}
	}
	if plan.event.reason != "" {
		r.env.Events.Event(ctx, claim, plan.event.kind, plan.event.reason, plan.event.message)
	}
	if plan.phase == corev1.ClaimPending {
		_, err = r.updateClaimStatus(ctx, claim, plan.phase, nil)
	}
	if err == nil {
		err = plan.err
	}
	return after, err
}

// view reads what the plan of a claim depends on, and the claim's class, which may be nil.
func (r binder) view(ctx context.Context, claim *corev1.PersistentVolumeClaim) (see claimView, class *storagev1.StorageClass, err error) {
	if name := claim.Spec.VolumeName; name != "" {
		see.named, _ = r.volumes.Get(objects.Key{Name: name})
		if see.named == nil && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted) && claim.Status.Phase != corev1.ClaimLost {
			see.named, err = r.latestVolume(ctx, name)
		}
		return see, nil, err
	}
	if name := volume.GetPersistentVolumeClaimClass(claim); name != "" {
		if class, _ = r.classes.Get(objects.Key{Name: name}); class != nil {
			if class.VolumeBindingMode == nil {
				return see, nil, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
			}
			see.delay = *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		}
	}
	candidates := slices.Concat(r.volumes.ByIndex(freeByClass, volume.GetPersistentVolumeClaimClass(claim)),
		r.volumes.ByIndex(volumesByClaim, keyOf(claim).String()))
	if see.match, err = bestVolume(claim, candidates, see.delay); err != nil {
		return see, nil, fmt.Errorf("error finding PV for claim %q: %w", keyOf(claim), err)
	}
	see.defaultClass = storage.Default(r.classes.List("", nil))
	for _, p := range r.pods.ByIndex(podsByClaim, keyOf(claim).String()) {
		if p.Spec.NodeName == "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			see.waiting = append(see.waiting, p.Name)
		}
	}
	slices.Sort(see.waiting)
	return see, class, nil
}
