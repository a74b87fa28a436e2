package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DirProvisioner is the provisioner of the cluster's own volumes, which are directories of the machine.
const DirProvisioner = "minikctl.dev/folder"

// DirClass returns the StorageClass of clusters whose nodes run pods for real. It is the default class, binds with the first
// pod of a claim, and has the name that it has in kind.
func DirClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: DirProvisioner, ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: new(true),
	}
}
