package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

func testClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "1"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if change != nil {
		change(c)
	}
	return c
}

// TestDirVolume: a volume of one node is bound to the selected node, and a shared one is not.
func TestDirVolume(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "host"}}}
	class := DirClass()
	v := DirVolume(testClaim(nil), class, node, "/data/volumes")
	if v.Name != "pvc-1" || v.Spec.HostPath.Path != "/data/volumes/pvc-1_default_data" || v.Spec.StorageClassName != "standard" {
		t.Errorf("got %+v", v)
	}
	if volume.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "host"}) != nil || volume.CheckNodeAffinity(v, map[string]string{corev1.LabelHostname: "other"}) == nil {
		t.Errorf("got affinity %+v", v.Spec.NodeAffinity)
	}
	if !cmp.Equal(v.Finalizers, []string{volume.PVDeletionProtectionFinalizer}) || v.Annotations[volume.AnnDynamicallyProvisioned] != DirProvisioner {
		t.Errorf("got %+v", v.ObjectMeta)
	}
	retained := corev1.PersistentVolumeReclaimRetain
	class.ReclaimPolicy = &retained
	shared := testClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	if v = DirVolume(testClaim(nil), class, nil, "/data/volumes"); v.Spec.NodeAffinity != nil {
		t.Errorf("without a node: got affinity %+v", v.Spec.NodeAffinity)
	}
	if v = DirVolume(shared, class, node, "/data/volumes"); v.Spec.NodeAffinity != nil || v.Finalizers != nil {
		t.Errorf("shared and retained: got affinity %+v, finalizers %v", v.Spec.NodeAffinity, v.Finalizers)
	}
}

// TestDirRefuses: what a directory can't serve is refused.
func TestDirRefuses(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for name, c := range map[string]struct {
		claim func(*corev1.PersistentVolumeClaim)
		class *storagev1.StorageClass
		want  bool
	}{
		"plain":         {nil, DirClass(), false},
		"block":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, DirClass(), true},
		"selector":      {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, DirClass(), true},
		"data source":   {func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, DirClass(), true},
		"parameters":    {nil, &storagev1.StorageClass{Parameters: map[string]string{"type": "ssd"}}, true},
		"mount options": {nil, &storagev1.StorageClass{MountOptions: []string{"ro"}}, true},
	} {
		if err := DirRefuses(testClaim(c.claim), c.class); (err != nil) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDriverOf: in-tree provisioners that CSI has replaced name their drivers, and no other in-tree one exists.
func TestDriverOf(t *testing.T) {
	for provisioner, want := range map[string]string{
		"example.com/disk": "example.com/disk", "kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/no-provisioner": "",
	} {
		got, err := DriverOf(provisioner)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", provisioner, got, err)
		}
	}
}
