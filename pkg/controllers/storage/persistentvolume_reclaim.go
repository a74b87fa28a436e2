package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// reclaim reclaims a released volume by its policy.
func (r binder) reclaim(ctx context.Context, v *corev1.PersistentVolume) error {
	if v.Annotations[volume.AnnMigratedTo] != "" {
		return nil // the CSI driver's provisioner does it
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimRecycle:
		return r.recycle(ctx, v)
	case corev1.PersistentVolumeReclaimDelete:
		return r.delete(ctx, v)
	}
	return r.fail(ctx, v, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

// external reports whether the provisioner that created a volume deletes it.
func external(v *corev1.PersistentVolume) bool {
	if provisioner := v.Annotations[volume.AnnDynamicallyProvisioned]; provisioner != "" {
		return !strings.HasPrefix(provisioner, storage.InTree)
	}
	return v.Spec.CSI != nil
}

// delete deletes the data of a volume, and then the volume. Kubernetes deletes host paths only, for tests.
func (r binder) delete(ctx context.Context, v *corev1.PersistentVolume) error {
	if external(v) {
		return nil
	}
	if v.Spec.HostPath == nil || strings.HasPrefix(v.Annotations[volume.AnnDynamicallyProvisioned], storage.InTree) {
		return r.fail(ctx, v, "VolumeFailedDelete", fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", v.Name))
	}
	err := deleteHostPath(v.Spec.HostPath.Path, r.env.Volumes != "")
	if errors.Is(err, errNotDeletable) {
		return r.fail(ctx, v, "VolumeFailedDelete", err.Error())
	}
	if err != nil {
		if failed := r.fail(ctx, v, "VolumeFailedDelete", err.Error()); failed != nil {
			return failed
		}
		return err
	}
	if slices.Contains(v.Finalizers, volume.PVDeletionInTreeProtectionFinalizer) {
		next := v.DeepCopy()
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == volume.PVDeletionInTreeProtectionFinalizer })
		if _, err := r.updateVolume(ctx, next, ""); err != nil {
			return err
		}
	}
	_, err = r.env.Client.Delete(ctx, client.In(persistentVolumes, keyOf(v)), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
	return controller.IgnoreNotFound(err)
}

// deletable is the directory below which host paths are deleted.
const deletable = "/tmp"

// errNotDeletable is the error of a path that is not below deletable.
var errNotDeletable = errors.New("host_path deleter only supports /tmp/.+")

// deleteHostPath deletes a path below deletable, and follows no link out of it. Without real, no pod has used this machine's paths,
// and it only checks the path.
func deleteHostPath(path string, real bool) error {
	below, err := filepath.Rel(deletable, path)
	if err != nil || below == "." || !filepath.IsLocal(below) {
		return fmt.Errorf("%w but received provided %s", errNotDeletable, path)
	}
	if !real {
		return nil
	}
	root, err := os.OpenRoot(deletable)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(below)
}

// The recycler pods: their namespace, the prefix of their names, and how long one may run at least, and for each Gi.
const (
	recyclerNamespace = metav1.NamespaceDefault
	recyclerPrefix    = "recycler-for-"
	recyclerMinimum   = 60
	recyclerIncrement = 30
	gi                = 1 << 30
)

// recycledVolume maps a recycler pod to its volume.
func recycledVolume(ch client.Change[*corev1.Pod]) []objects.Key {
	name, ok := strings.CutPrefix(ch.Key().Name, recyclerPrefix)
	if !ok || ch.Key().Namespace != recyclerNamespace {
		return nil
	}
	return []objects.Key{{Name: name}}
}

// recycle empties a volume with a pod, and makes the volume available again when the pod has succeeded.
func (r binder) recycle(ctx context.Context, v *corev1.PersistentVolume) error {
	if users := r.users(v); len(users) > 0 {
		if _, ok := r.claims.Get(claimOf(v)); !ok {
			r.env.Events.Event(ctx, v, corev1.EventTypeNormal, "VolumeFailedRecycle", "Volume is used by pods: "+strings.Join(users, ","))
			return nil
		}
	}
	if v.Spec.HostPath == nil && v.Spec.NFS == nil {
		return r.fail(ctx, v, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	key := objects.Key{Namespace: recyclerNamespace, Name: recyclerPrefix + v.Name}
	pod, ok := r.pods.Get(key)
	if !ok {
		if v.Status.Phase == corev1.VolumeFailed {
			return nil
		}
		_, err := r.env.Client.Create(ctx, client.Target{Resource: client.Pods, Namespace: recyclerNamespace}, recyclerPod(v), metav1.CreateOptions{})
		return err
	}
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed || pod.DeletionTimestamp != nil {
		return nil // its next change enqueues the volume
	}
	_, err := r.env.Client.Delete(ctx, client.In(client.Pods, key), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err = controller.IgnoreNotFound(err); err != nil {
		return err
	}
	if pod.Status.Phase == corev1.PodFailed {
		why := pod.Status.Message
		if why == "" {
			why = "pod failed, pod.Status.Message unknown"
		}
		return r.fail(ctx, v, "VolumeFailedRecycle", "Recycle failed: failed to recycle volume: "+why)
	}
	r.env.Events.Event(ctx, v, corev1.EventTypeNormal, "VolumeRecycled", "Volume recycled")
	return r.unbind(ctx, v)
}

// users returns the names of the running pods that use a volume's claim, sorted.
func (r binder) users(v *corev1.PersistentVolume) []string {
	var names []string
	for _, p := range r.pods.ByIndex(podsByClaim, claimOf(v).String()) {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			names = append(names, keyOf(p).String())
		}
	}
	slices.Sort(names)
	return names
}

// recyclerPod returns the pod that empties a volume. Containers of plain processes find the volume below $MINIKCTL_ROOT.
func recyclerPod(v *corev1.PersistentVolume) *corev1.Pod {
	size := v.Spec.Capacity[corev1.ResourceStorage]
	timeout := max(recyclerMinimum, size.Value()/gi*recyclerIncrement)
	source := corev1.VolumeSource{NFS: v.Spec.NFS}
	if v.Spec.HostPath != nil {
		source = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.Spec.HostPath.Path}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: recyclerPrefix + v.Name, Namespace: recyclerNamespace},
		Spec: corev1.PodSpec{
			ActiveDeadlineSeconds: &timeout, RestartPolicy: corev1.RestartPolicyNever,
			Volumes: []corev1.Volume{{Name: "vol", VolumeSource: source}},
			Containers: []corev1.Container{{
				Name: "pv-recycler", Image: "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6", Command: []string{"/bin/sh"},
				Args:         []string{"-c", `cd "${MINIKCTL_ROOT}/scrub" && find . -mindepth 1 -delete && test -z "$(ls -A .)" || exit 1`},
				VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
			}},
		},
	}
}
