package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// TestNewDirVolume: a volume of one node is bound to the selected node, and a shared one is not.
func TestNewDirVolume(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "host"}}}
	class := storage.DirClass()
	v := newDirVolume(testClaim(nil), class, node, "/data/volumes")
	if v.Name != "pvc-1" || v.Spec.HostPath.Path != "/data/volumes/pvc-1_default_data" || v.Spec.StorageClassName != "standard" {
		t.Errorf("got %+v", v)
	}
	if volume.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "host"}) != nil || volume.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "other"}) == nil {
		t.Errorf("got affinity %+v", v.Spec.NodeAffinity)
	}
	if !cmp.Equal(v.Finalizers, []string{volume.PVDeletionProtectionFinalizer}) || v.Annotations[volume.AnnDynamicallyProvisioned] != storage.DirProvisioner {
		t.Errorf("got %+v", v.ObjectMeta)
	}
	retained := corev1.PersistentVolumeReclaimRetain
	class.ReclaimPolicy = &retained
	shared := testClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	if v = newDirVolume(shared, class, node, "/data/volumes"); v.Spec.NodeAffinity != nil || v.Finalizers != nil {
		t.Errorf("shared and retained: got affinity %+v, finalizers %v", v.Spec.NodeAffinity, v.Finalizers)
	}
}

// TestRefused: what a directory can't serve is refused.
func TestRefused(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for name, c := range map[string]struct {
		claim func(*corev1.PersistentVolumeClaim)
		class *storagev1.StorageClass
		want  bool
	}{
		"plain":         {nil, storage.DirClass(), false},
		"block":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, storage.DirClass(), true},
		"selector":      {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, storage.DirClass(), true},
		"data source":   {func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, storage.DirClass(), true},
		"parameters":    {nil, &storagev1.StorageClass{Parameters: map[string]string{"type": "ssd"}}, true},
		"mount options": {nil, &storagev1.StorageClass{MountOptions: []string{"ro"}}, true},
	} {
		if err := refused(testClaim(c.claim), c.class); (err != nil) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

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
	v := newDirVolume(testClaim(nil), storage.DirClass(), nil, r.env.Volumes)
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
