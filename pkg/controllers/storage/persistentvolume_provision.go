package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// requestVolume annotates a claim with the provisioner of its class, which then creates the volume. class is nil if it does not exist.
func (r binder) requestVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	fail := func(err error) {
		r.env.Events.Event(ctx, claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
	}
	if class == nil {
		fail(apierrors.NewNotFound(schema.GroupResource{Group: storageClasses.Group, Resource: "storageclass"}, volume.GetPersistentVolumeClaimClass(claim)))
		return nil
	}
	driver, err := storage.DriverOf(class.Provisioner)
	if err != nil {
		fail(err)
		return nil
	}
	if claim.Annotations[volume.AnnStorageProvisioner] != driver {
		next := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnBetaStorageProvisioner, driver)
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnStorageProvisioner, driver)
		if claim, err = r.updateClaim(ctx, next, ""); err != nil {
			return err
		}
	}
	r.env.Events.Event(ctx, claim, corev1.EventTypeNormal, "ExternalProvisioning",
		fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", driver))
	return nil
}

// annotateMigratedClaim writes the annotation that says which CSI driver acts for a claim's in-tree provisioner.
func (r binder) annotateMigratedClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	provisioner, ok := claim.Annotations[volume.AnnStorageProvisioner]
	if !ok {
		provisioner = claim.Annotations[volume.AnnBetaStorageProvisioner]
	}
	if provisioner == "" || claim.Annotations[volume.AnnMigratedTo] == storage.MigratedTo(provisioner) {
		return claim, nil
	}
	claim = claim.DeepCopy()
	setMigrated(&claim.ObjectMeta, provisioner)
	return r.updateClaim(ctx, claim, "")
}

// annotateMigratedVolume is like annotateMigratedClaim, for a volume. It also keeps the finalizer of volumes that an in-tree plugin deletes.
func (r binder) annotateMigratedVolume(ctx context.Context, v *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	provisioner := v.Annotations[volume.AnnDynamicallyProvisioned]
	if provisioner == "" {
		return v, nil
	}
	finalizers := deletionFinalizers(v)
	if v.Annotations[volume.AnnMigratedTo] == storage.MigratedTo(provisioner) && slices.Equal(finalizers, v.Finalizers) {
		return v, nil
	}
	v = v.DeepCopy()
	setMigrated(&v.ObjectMeta, provisioner)
	v.Finalizers = finalizers
	return r.updateVolume(ctx, v, "")
}

func setMigrated(meta *metav1.ObjectMeta, provisioner string) {
	if driver := storage.MigratedTo(provisioner); driver != "" {
		meta.Annotations[volume.AnnMigratedTo] = driver
	} else {
		delete(meta.Annotations, volume.AnnMigratedTo)
	}
}

// deletionFinalizers returns the finalizers of a provisioned volume: the binder's own is on volumes with the policy Delete whose
// in-tree plugin deletes them, and no other one is.
func deletionFinalizers(v *corev1.PersistentVolume) []string {
	provisioner := v.Annotations[volume.AnnDynamicallyProvisioned]
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(v.Finalizers), func(f string) bool { return slices.Contains(names, f) })
	}
	switch {
	case storage.MigratedTo(provisioner) != "":
		return without(volume.PVDeletionInTreeProtectionFinalizer)
	case !strings.HasPrefix(provisioner, storage.InTree):
		return v.Finalizers
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return without(volume.PVDeletionInTreeProtectionFinalizer, volume.PVDeletionProtectionFinalizer)
	case slices.Contains(v.Finalizers, volume.PVDeletionInTreeProtectionFinalizer):
		return without(volume.PVDeletionProtectionFinalizer)
	}
	return append(without(volume.PVDeletionProtectionFinalizer), volume.PVDeletionInTreeProtectionFinalizer)
}
