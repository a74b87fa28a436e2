package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FolderProvisioner is the provisioner of the cluster's own volumes, which are folders of the machine.
const FolderProvisioner = "minikctl.dev/folder"

// FolderClass returns the StorageClass of clusters whose nodes run pods for real. It is the default class, binds with the first
// pod of a claim, and has the name that it has in kind.
func FolderClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: FolderProvisioner, ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: new(true),
	}
}
