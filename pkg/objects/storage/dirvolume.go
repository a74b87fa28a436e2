package storage

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// DirRefuses returns why DirProvisioner makes no volume for a claim, nil if it makes one.
func DirRefuses(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	switch {
	case claim.Spec.Selector != nil:
		return errors.New("claim.Spec.Selector is not supported")
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return errors.New("block volumes are not supported: a volume is a directory")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return errors.New("data sources are not supported")
	case len(class.Parameters) > 0:
		return fmt.Errorf("unknown parameters %v: there are none", slices.Sorted(maps.Keys(class.Parameters)))
	case len(class.MountOptions) > 0:
		return fmt.Errorf("mount options %v are not supported: nothing is mounted", class.MountOptions)
	}
	return nil
}

// DirVolume returns the volume that DirProvisioner makes for a claim, in a directory below dir. A claim of one node is bound to the selected node, as
// with other local provisioners; claims of many nodes are not, nor is one without a selected node (nil), since all nodes of a machine have its directories.
func DirVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node *corev1.Node, dir string) *corev1.PersistentVolume {
	name, policy := "pvc-"+string(claim.UID), corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	if dir == "" {
		dir = "/var/lib/minikctl/volumes" // of simulated pods, which use no files
	}
	path := filepath.Join(dir, name+"_"+claim.Namespace+"_"+claim.Name)
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: DirProvisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   slices.Clone(claim.Spec.AccessModes),
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, VolumeMode: claim.Spec.VolumeMode,
			VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
				ResourceVersion: claim.ResourceVersion},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: new(corev1.HostPathDirectoryOrCreate)}},
		},
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		v.Finalizers = []string{volume.PVDeletionProtectionFinalizer}
	}
	shared := slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany)
	if node != nil && !shared {
		host := node.Labels[corev1.LabelHostname]
		if host == "" {
			host = node.Name
		}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}}}}}
	}
	return v
}
