package volume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// AccessModes and Modes are the valid access and volume modes.
var (
	AccessModes = accessModes
	Modes       = volumeModes
)

// DefaultPersistent sets the defaults of the source of a PersistentVolume.
func DefaultPersistent(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		setPointer(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		setString(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setString(&s.RBD.RBDPool, "rbd")
		setString(&s.RBD.RadosUser, "admin")
		setString(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.AzureDisk != nil {
		defaultNetworkSource(&corev1.VolumeSource{AzureDisk: s.AzureDisk})
	}
	if s.ScaleIO != nil {
		setString(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&s.ScaleIO.FSType, "xfs")
	}
}

// DefaultClaimSpec sets the defaults of a claim.
func DefaultClaimSpec(s *corev1.PersistentVolumeClaimSpec) { defaultClaimSpec(s) }

// ValidatePersistentSource checks that the PersistentVolume called name has exactly one, valid source.
func ValidatePersistentSource(s *corev1.PersistentVolumeSource, name string, at *field.Path) field.ErrorList {
	o := one{at: at}
	if o.first(s.HostPath != nil, "hostPath") {
		o.add(validateHostPath(s.HostPath, at.Child("hostPath")))
	}
	if o.first(s.GCEPersistentDisk != nil, "gcePersistentDisk") {
		o.add(validateGCEDisk(s.GCEPersistentDisk, at.Child("persistentDisk")))
	}
	if o.first(s.AWSElasticBlockStore != nil, "awsElasticBlockStore") {
		o.add(validateAWSDisk(s.AWSElasticBlockStore, at.Child("awsElasticBlockStore")))
	}
	o.persistentNetwork(s, name)
	if o.first(s.AzureDisk != nil, "azureDisk") {
		o.add(validateAzureDisk(s.AzureDisk, at.Child("azureDisk")))
	}
	if o.first(s.ScaleIO != nil, "scaleIO") {
		o.add(required(at.Child("scaleIO"), "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName))
	}
	if o.first(s.Local != nil, "local") {
		o.add(required(at.Child("local"), "path", s.Local.Path))
		o.add(NoBacksteps(s.Local.Path, at.Child("local"), "path"))
	}
	if o.first(s.StorageOS != nil, "storageos") {
		o.add(persistentStorageOS(s.StorageOS, at.Child("storageos")))
	}
	if o.first(s.CSI != nil, "csi") {
		o.add(persistentCSI(s.CSI, at.Child("csi")))
	}
	if o.n == 0 {
		o.errs = append(o.errs, field.Required(at, "must specify a volume type"))
	}
	return o.errs
}

func (o *one) persistentNetwork(s *corev1.PersistentVolumeSource, name string) {
	at := o.at
	if o.first(s.Glusterfs != nil, "glusterfs") {
		o.add(persistentGluster(s.Glusterfs, at.Child("glusterfs")))
	}
	if o.first(s.Flocker != nil, "flocker") {
		o.add(validateFlocker(s.Flocker, at.Child("flocker")))
	}
	if o.first(s.NFS != nil, "nfs") {
		o.add(validateNFS(s.NFS, at.Child("nfs")))
	}
	if o.first(s.RBD != nil, "rbd") {
		o.add(validateRBD(&corev1.RBDVolumeSource{CephMonitors: s.RBD.CephMonitors, RBDImage: s.RBD.RBDImage}, at.Child("rbd")))
	}
	if o.first(s.Quobyte != nil, "quobyte") {
		o.add(validateQuobyte(s.Quobyte, at.Child("quobyte")))
	}
	if o.first(s.CephFS != nil, "cephFS") && len(s.CephFS.Monitors) == 0 {
		o.errs = append(o.errs, field.Required(at.Child("cephfs", "monitors"), ""))
	}
	if o.first(s.ISCSI != nil, "iscsi") {
		o.add(persistentISCSI(s.ISCSI, name, at.Child("iscsi")))
	}
	if o.first(s.Cinder != nil, "cinder") {
		o.add(required(at.Child("cinder"), "volumeID", s.Cinder.VolumeID))
		if ref := s.Cinder.SecretRef; ref != nil {
			o.add(required(at.Child("cinder", "secretRef"), "name", ref.Name, "namespace", ref.Namespace))
		}
	}
	if o.first(s.FC != nil, "fc") {
		o.add(validateFC(s.FC, at.Child("fc")))
	}
	if s.FlexVolume != nil { // Kubernetes accepts it beside another source
		o.n = 1
		o.add(validateFlex(&corev1.FlexVolumeSource{Driver: s.FlexVolume.Driver, Options: s.FlexVolume.Options}, at.Child("flexVolume")))
	}
	if o.first(s.AzureFile != nil, "azureFile") {
		o.add(required(at.Child("azureFile"), "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName))
		if ns := s.AzureFile.SecretNamespace; ns != nil {
			o.add(required(at.Child("azureFile"), "secretNamespace", *ns))
		}
	}
	if o.first(s.VsphereVolume != nil, "vsphereVolume") {
		o.add(required(at.Child("vsphereVolume"), "volumePath", s.VsphereVolume.VolumePath))
	}
	if o.first(s.PhotonPersistentDisk != nil, "photonPersistentDisk") {
		o.add(required(at.Child("photonPersistentDisk"), "pdID", s.PhotonPersistentDisk.PdID))
	}
	if o.first(s.PortworxVolume != nil, "portworxVolume") {
		o.add(required(at.Child("portworxVolume"), "volumeID", s.PortworxVolume.VolumeID))
	}
}

func persistentGluster(g *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := required(at, "endpoints", g.EndpointsName, "path", g.Path)
	if g.EndpointsNamespace == nil {
		return errs
	}
	ns := at.Child("endpointsNamespace")
	if *g.EndpointsNamespace == "" {
		return append(errs, field.Invalid(ns, "", "if the endpointnamespace is set, it must be a valid namespace name"))
	}
	return append(errs, check.Invalid(ns, *g.EndpointsNamespace, apivalidation.ValidateNamespaceName(*g.EndpointsNamespace, false))...)
}

func persistentISCSI(i *corev1.ISCSIPersistentVolumeSource, name string, at *field.Path) field.ErrorList {
	errs := required(at, "targetPortal", i.TargetPortal)
	if i.InitiatorName != nil && len(name)+1+len(i.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(at.Child("targetportal"), i.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if i.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else {
		errs = append(errs, persistentInitiator(i.IQN, at.Child("iqn"))...)
	}
	if i.Lun < 0 || i.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), i.Lun, utilvalidation.InclusiveRangeError(0, 255)))
	}
	if (i.DiscoveryCHAPAuth || i.SessionCHAPAuth) && i.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if i.SecretRef != nil {
		errs = append(errs, required(at.Child("secretRef"), "name", i.SecretRef.Name)...)
	}
	if i.InitiatorName != nil {
		errs = append(errs, persistentInitiator(*i.InitiatorName, at.Child("initiatorname"))...)
	}
	return errs
}

// persistentInitiator is like initiator, with the shorter messages for PersistentVolumes.
func persistentInitiator(name string, at *field.Path) field.ErrorList {
	if form := initiators()[name[:min(3, len(name))]]; form != nil && form.MatchString(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format")}
}

func persistentStorageOS(s *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := validateStorageOS(&corev1.StorageOSVolumeSource{VolumeName: s.VolumeName, VolumeNamespace: s.VolumeNamespace}, at)
	if s.SecretRef != nil {
		errs = append(errs, required(at.Child("secretRef"), "name", s.SecretRef.Name, "namespace", s.SecretRef.Namespace)...)
	}
	return errs
}

func persistentCSI(c *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(ValidateDriver(c.Driver, at.Child("driver")), required(at, "volumeHandle", c.VolumeHandle)...)
	for _, ref := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if ref.ref != nil {
			errs = append(errs, secretReference(ref.ref, at.Child(ref.name))...)
		}
	}
	return errs
}

func secretReference(ref *corev1.SecretReference, at *field.Path) field.ErrorList {
	errs := required(at, "name", ref.Name)
	if errs == nil {
		errs = check.Subdomain(ref.Name, at, "name")
	}
	if ref.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), ""))
	}
	return append(errs, check.Label(ref.Namespace, at, "namespace")...)
}

// ValidateDriver checks the name of a CSI driver.
func ValidateDriver(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > 63 {
		errs = append(errs, field.TooLong(at, "", 63))
	}
	return append(errs, check.Invalid(at, name, utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}
