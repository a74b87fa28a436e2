package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldStorageClasses = []objects.Version[*storagev1.StorageClass]{
		objects.Removed("storage.k8s.io/v1beta1", "StorageClass", func() *storagev1.StorageClass { return &storagev1.StorageClass{} },
			func() *storagev1beta1.StorageClass { return &storagev1beta1.StorageClass{} }, func() runtime.Object { return &storagev1beta1.StorageClassList{} }),
	}
	oldVolumeAttachments = []objects.Version[*storagev1.VolumeAttachment]{
		objects.Removed("storage.k8s.io/v1beta1", "VolumeAttachment", func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} },
			func() *storagev1beta1.VolumeAttachment { return &storagev1beta1.VolumeAttachment{} }, func() runtime.Object { return &storagev1beta1.VolumeAttachmentList{} }),
	}
	oldCSIDrivers = []objects.Version[*storagev1.CSIDriver]{
		objects.Removed("storage.k8s.io/v1beta1", "CSIDriver", func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
			func() *storagev1beta1.CSIDriver { return &storagev1beta1.CSIDriver{} }, func() runtime.Object { return &storagev1beta1.CSIDriverList{} }),
	}
	oldCSINodes = []objects.Version[*storagev1.CSINode]{
		objects.Removed("storage.k8s.io/v1beta1", "CSINode", func() *storagev1.CSINode { return &storagev1.CSINode{} },
			func() *storagev1beta1.CSINode { return &storagev1beta1.CSINode{} }, func() runtime.Object { return &storagev1beta1.CSINodeList{} }),
	}
	oldCSIStorageCapacities = []objects.Version[*storagev1.CSIStorageCapacity]{
		objects.Removed("storage.k8s.io/v1beta1", "CSIStorageCapacity", func() *storagev1.CSIStorageCapacity { return &storagev1.CSIStorageCapacity{} },
			func() *storagev1beta1.CSIStorageCapacity { return &storagev1beta1.CSIStorageCapacity{} }, func() runtime.Object { return &storagev1beta1.CSIStorageCapacityList{} }),
	}
)
