package volume

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateGCEDisk(d *corev1.GCEPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return append(required(at, "pdName", d.PDName), partition(d.Partition, at)...)
}

func validateAWSDisk(d *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) field.ErrorList {
	return append(required(at, "volumeID", d.VolumeID), partition(d.Partition, at)...)
}

func partition(n int32, at *field.Path) field.ErrorList {
	if 0 <= n && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("partition"), n, utilvalidation.InclusiveRangeError(1, 255))}
}

func validateNFS(n *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "server", n.Server, "path", n.Path)
	if !strings.HasPrefix(n.Path, "/") {
		errs = append(errs, field.Invalid(at.Child("path"), n.Path, "must be an absolute path"))
	}
	return errs
}

func validateISCSI(i *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "targetPortal", i.TargetPortal)
	if i.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else {
		errs = append(errs, initiator(i.IQN, at.Child("iqn"))...)
	}
	if i.Lun < 0 || i.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), i.Lun, utilvalidation.InclusiveRangeError(0, 255)))
	}
	if (i.DiscoveryCHAPAuth || i.SessionCHAPAuth) && i.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if i.InitiatorName != nil {
		errs = append(errs, initiator(*i.InitiatorName, at.Child("initiatorname"))...)
	}
	return errs
}

// initiators are the patterns of iSCSI names, by prefix.
var initiators = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
		"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
		"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
	}
})

func initiator(name string, at *field.Path) field.ErrorList {
	form := initiators()[name[:min(3, len(name))]]
	switch {
	case form == nil:
		return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
	case !form.MatchString(name):
		return field.ErrorList{field.Invalid(at, name, "must be valid format")}
	}
	return nil
}

func validateFlocker(f *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if f.DatasetName == "" && f.DatasetUUID == "" {
		errs = append(errs, field.Required(at, "one of datasetName and datasetUUID is required"))
	}
	if f.DatasetName != "" && f.DatasetUUID != "" {
		errs = append(errs, field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

func validateRBD(r *corev1.RBDVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.CephMonitors) == 0 {
		errs = append(errs, field.Required(at.Child("monitors"), ""))
	}
	return append(errs, required(at, "image", r.RBDImage)...)
}

const hostPorts = "must be a host:port pair or multiple pairs separated by commas"

func validateQuobyte(q *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(at.Child("registry"), hostPorts))
	case len(q.Tenant) >= 65:
		errs = append(errs, field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.Child("registry"), q.Registry, hostPorts))
			}
		}
	}
	return append(errs, required(at, "volume", q.Volume)...)
}

func validateFC(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := at.Child("targetWWNs")
	if len(f.TargetWWNs) == 0 && len(f.WWIDs) == 0 {
		errs = append(errs, field.Required(names, "must specify either targetWWNs or wwids, but not both"))
	}
	if len(f.TargetWWNs) != 0 && len(f.WWIDs) != 0 {
		errs = append(errs, field.Invalid(names, f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case len(f.TargetWWNs) == 0:
	case f.Lun == nil:
		errs = append(errs, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	case *f.Lun < 0 || *f.Lun > 255:
		errs = append(errs, field.Invalid(at.Child("lun"), f.Lun, utilvalidation.InclusiveRangeError(0, 255)))
	}
	return errs
}

func validateFlex(f *corev1.FlexVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "driver", f.Driver)
	for _, key := range slices.Sorted(maps.Keys(f.Options)) {
		namespace, _, _ := strings.Cut(key, "/")
		domain := "." + strings.ToLower(namespace)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			errs = append(errs, field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

var (
	cachingModes = []corev1.AzureDataDiskCachingMode{
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite,
	}
	diskKinds   = []corev1.AzureDataDiskKind{corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk}
	managedURIs = []string{"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"}
	blobURIs    = []string{"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"}
)

func validateAzureDisk(d *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "diskName", d.DiskName, "diskURI", d.DataDiskURI)
	if d.CachingMode != nil {
		errs = append(errs, check.OneOf(*d.CachingMode, cachingModes, at, "cachingMode")...)
	}
	if d.Kind == nil {
		return errs
	}
	errs = append(errs, check.OneOf(*d.Kind, diskKinds, at, "kind")...)
	managed := *d.Kind == corev1.AzureManagedDisk
	if managed && !strings.HasPrefix(d.DataDiskURI, "/subscriptions/") {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, managedURIs))
	}
	if !managed && !strings.HasPrefix(d.DataDiskURI, "https://") {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, blobURIs))
	}
	return errs
}

func validateScaleIO(s *corev1.ScaleIOVolumeSource, at *field.Path) field.ErrorList {
	return required(at, "gateway", s.Gateway, "system", s.System, "volumeName", s.VolumeName)
}

func validateStorageOS(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "volumeName", s.VolumeName)
	if s.VolumeName != "" {
		errs = append(errs, check.Label(s.VolumeName, at, "volumeName")...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, check.Label(s.VolumeNamespace, at, "volumeNamespace")...)
	}
	return append(errs, secretRef(s.SecretRef, at)...)
}

func validateCSI(c *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "driver", c.Driver)
	if len(c.Driver) > 63 {
		errs = append(errs, field.TooLong(at.Child("driver"), "", 63))
	}
	errs = append(errs, check.Invalid(at.Child("driver"), c.Driver, utilvalidation.IsDNS1123Subdomain(strings.ToLower(c.Driver)))...)
	if ref := c.NodePublishSecretRef; ref != nil {
		if ref.Name == "" {
			return append(errs, field.Required(at.Child("nodePublishSecretRef", "name"), ""))
		}
		errs = append(errs, check.Subdomain(ref.Name, at, "name")...)
	}
	return errs
}
