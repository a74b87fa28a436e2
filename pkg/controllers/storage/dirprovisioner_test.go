package storage

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// TestMustDelete: a volume is deleted when its claim is gone, and not while it is bound, retained or another's.
func TestMustDelete(t *testing.T) {
	own := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return testVolume("v", "1Gi", func(v *corev1.PersistentVolume) {
			v.Annotations[volume.AnnDynamicallyProvisioned] = storage.DirProvisioner
			v.Spec.PersistentVolumeReclaimPolicy, v.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
			v.Finalizers = []string{volume.PVDeletionProtectionFinalizer}
			if change != nil {
				change(v)
			}
		})
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"released": {own(nil), true},
		"bound":    {own(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }), false},
		"retained": {own(func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), false},
		"other's":        {own(func(v *corev1.PersistentVolume) { v.Annotations[volume.AnnDynamicallyProvisioned] = "x" }), false},
		"deleted":        {own(func(v *corev1.PersistentVolume) { v.Status.Phase, v.DeletionTimestamp = corev1.VolumeAvailable, &now }), true},
		"deleted, bound": {own(func(v *corev1.PersistentVolume) { v.Status.Phase, v.DeletionTimestamp = corev1.VolumeBound, &now }), false},
	} {
		if got := mustDelete(c.volume); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestDir: a directory is open to every user, and only directories of this provisioner are removed.
func TestDir(t *testing.T) {
	dir := t.TempDir()
	r := dirProvisioner{env: controller.Env{Volumes: filepath.Join(dir, "volumes")}}
	v := storage.DirVolume(testClaim(nil), storage.DirClass(), nil, r.env.Volumes)
	if err := r.makeDir(v.Spec.HostPath.Path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(v.Spec.HostPath.Path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := r.removeDir(v); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(v.Spec.HostPath.Path); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	for _, path := range []string{dir, r.env.Volumes, filepath.Join(r.env.Volumes, ".."), filepath.Join(r.env.Volumes, "a", "b")} {
		v.Spec.HostPath.Path = path
		if err := r.removeDir(v); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}
