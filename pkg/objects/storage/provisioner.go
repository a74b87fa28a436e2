package storage

import (
	"fmt"
	"strings"
)

// InTree is the prefix of the names of Kubernetes' own volume plugins.
const InTree = "kubernetes.io/"

// MigratedTo returns the CSI driver that has replaced an in-tree plugin, "" if none has.
func MigratedTo(provisioner string) string {
	switch provisioner {
	case "kubernetes.io/aws-ebs":
		return "ebs.csi.aws.com"
	case "kubernetes.io/azure-disk":
		return "disk.csi.azure.com"
	case "kubernetes.io/azure-file":
		return "file.csi.azure.com"
	case "kubernetes.io/cinder":
		return "cinder.csi.openstack.org"
	case "kubernetes.io/gce-pd":
		return "pd.csi.storage.gke.io"
	case "kubernetes.io/portworx-volume":
		return "pxd.portworx.com"
	case "kubernetes.io/vsphere-volume":
		return "csi.vsphere.vmware.com"
	}
	return ""
}

// DriverOf returns the provisioner that acts for a StorageClass's provisioner, and an error if none can.
func DriverOf(provisioner string) (string, error) {
	if driver := MigratedTo(provisioner); driver != "" {
		return driver, nil
	}
	if strings.HasPrefix(provisioner, InTree) {
		return "", fmt.Errorf("no volume plugin matched name: %s", provisioner)
	}
	return provisioner, nil
}
