package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/minikctl/minikctl/pkg/objects/storage"
	"github.com/minikctl/minikctl/pkg/reconcile"
	"github.com/minikctl/minikctl/pkg/supervisor/remove"
)

// dirProvisioner creates and deletes the volumes of StorageClasses whose provisioner is storage.DirProvisioner. It is
// an external provisioner to the binder, which annotates the claims that need a volume. A volume is a directory of this machine.
type dirProvisioner struct {
	env     controller.Env
	claims  *client.Cache[*corev1.PersistentVolumeClaim]
	volumes *client.Cache[*corev1.PersistentVolume]
	classes *client.Cache[*storagev1.StorageClass]
	nodes   *client.Cache[*corev1.Node]
}

// DirProvisioner creates a directory for each claim that the binder has annotated with its name, and deletes it with the volume.
// The keys of its loop are claims, and volumes, which have no namespace.
func DirProvisioner(env controller.Env) reconcile.Loop {
	r := dirProvisioner{
		env: env, nodes: env.Caches.Nodes(),
		claims:  client.CacheOf[*corev1.PersistentVolumeClaim](env.Caches, persistentVolumeClaims),
		volumes: client.CacheOf[*corev1.PersistentVolume](env.Caches, persistentVolumes),
		classes: client.CacheOf[*storagev1.StorageClass](env.Caches, storageClasses),
	}
	return reconcile.Loop{
		Name: "dirprovisioner", Workers: controller.Workers,
		Sources:   []reconcile.Source{reconcile.Watch(r.claims), reconcile.Watch(r.volumes)},
		Reconcile: r.reconcile,
	}
}

func (r dirProvisioner) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	if key.Namespace == "" {
		if v, ok := r.volumes.Get(key); ok && mustDelete(v) {
			return 0, r.delete(ctx, v)
		}
		return 0, nil
	}
	if claim, ok := r.claims.Get(key); ok && mustProvision(claim) {
		return 0, r.provision(ctx, claim)
	}
	return 0, nil
}

// mustProvision reports whether the binder requests a volume for a claim from this provisioner.
func mustProvision(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[volume.AnnStorageProvisioner] == storage.DirProvisioner && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// mustDelete reports whether a volume of this provisioner must be deleted: its claim is gone and its policy is Delete, or it is
// being deleted and waits for the provisioner.
func mustDelete(v *corev1.PersistentVolume) bool {
	if v.Annotations[volume.AnnDynamicallyProvisioned] != storage.DirProvisioner || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return false
	}
	unused := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	return unused || v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound && slices.Contains(v.Finalizers, volume.PVDeletionProtectionFinalizer)
}

// provision creates the directory and the volume of a claim.
func (r dirProvisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	className := volume.GetPersistentVolumeClaimClass(claim)
	class, ok := r.classes.Get(objects.Key{Name: className})
	if !ok || class.Provisioner != storage.DirProvisioner {
		return nil // the binder says so
	}
	name := "pvc-" + string(claim.UID)
	if _, ok := r.volumes.Get(objects.Key{Name: name}); ok {
		return nil
	}
	late := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	nodeName, selected := claim.Annotations[volume.AnnSelectedNode]
	if late && !selected {
		return nil
	}
	r.env.Events.Event(ctx, claim, corev1.EventTypeNormal, "Provisioning", fmt.Sprintf("External provisioner is provisioning volume for claim %q", keyOf(claim)))
	failed := func(err error) {
		r.env.Events.Event(ctx, claim, corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("failed to provision volume with StorageClass %q: %v", className, err))
	}
	if err := storage.DirRefuses(claim, class); err != nil {
		failed(err)
		return nil
	}
	var node *corev1.Node
	if selected {
		if node, ok = r.nodes.Get(objects.Key{Name: nodeName}); !ok {
			failed(fmt.Errorf("failed to get target node: node %q not found", nodeName))
			return r.reschedule(ctx, claim)
		}
	}
	v := storage.DirVolume(claim, class, node, r.env.Volumes)
	if err := r.makeDir(v.Spec.HostPath.Path); err != nil {
		failed(err)
		return err
	}
	_, err := r.env.Client.Create(ctx, client.Target{Resource: persistentVolumes}, v, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		failed(err)
		return err
	}
	r.env.Events.Event(ctx, claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume "+name)
	return nil
}

// reschedule removes the selected node from a claim, so that the scheduler chooses another one.
func (r dirProvisioner) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	claim = claim.DeepCopy()
	delete(claim.Annotations, volume.AnnSelectedNode)
	_, err := r.env.Client.Update(ctx, client.In(persistentVolumeClaims, keyOf(claim)), claim, metav1.UpdateOptions{})
	return controller.IgnoreNotFound(err)
}

// makeDir makes the directory of a volume. Every user may write to it: containers may run as others than the daemon.
func (r dirProvisioner) makeDir(path string) error {
	if r.env.Volumes == "" {
		return nil
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	return os.Chmod(path, 0o777) // MkdirAll applies the umask
}

// delete deletes the directory of a volume, and then the volume.
func (r dirProvisioner) delete(ctx context.Context, v *corev1.PersistentVolume) error {
	if err := r.removeDir(v); err != nil {
		r.env.Events.Event(ctx, v, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
		return err
	}
	if v.DeletionTimestamp == nil {
		_, err := r.env.Client.Delete(ctx, client.In(persistentVolumes, keyOf(v)), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
		return controller.IgnoreNotFound(err) // the deletion enqueues the volume again
	}
	if !slices.Contains(v.Finalizers, volume.PVDeletionProtectionFinalizer) {
		return nil
	}
	v = v.DeepCopy()
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == volume.PVDeletionProtectionFinalizer })
	_, err := r.env.Client.Update(ctx, client.In(persistentVolumes, keyOf(v)), v, metav1.UpdateOptions{})
	return controller.IgnoreNotFound(err)
}

// removeDir removes the directory of a volume if it is one that this provisioner made.
func (r dirProvisioner) removeDir(v *corev1.PersistentVolume) error {
	if r.env.Volumes == "" {
		return nil
	}
	if v.Spec.HostPath == nil || filepath.Dir(filepath.Clean(v.Spec.HostPath.Path)) != filepath.Clean(r.env.Volumes) {
		return fmt.Errorf("the volume is not in the directory of this cluster's volumes, %s", r.env.Volumes)
	}
	root, err := os.OpenRoot(r.env.Volumes)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return remove.In(root, filepath.Base(filepath.Clean(v.Spec.HostPath.Path)))
}
