package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Known holds the valid volumes of a pod by name.
type Known struct {
	few    []*corev1.Volume
	byName map[string]*corev1.Volume // nil for few volumes
}

// indexFrom is the lowest number of volumes for which an index is built.
const indexFrom = 16

// Find returns the volume with a name, or nil.
func (k *Known) Find(name string) *corev1.Volume {
	if k.byName != nil {
		return k.byName[name]
	}
	for _, v := range k.few {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func (k *Known) add(v *corev1.Volume) {
	switch {
	case k.byName != nil:
		k.byName[v.Name] = v
	case len(k.few) < indexFrom:
		k.few = append(k.few, v)
	default:
		k.byName = map[string]*corev1.Volume{v.Name: v}
		for _, v := range k.few {
			k.byName[v.Name] = v
		}
	}
}

// Validate checks the volumes of a pod. pod is its name, which the claims of ephemeral volumes contain; "" for a template.
func Validate(volumes []corev1.Volume, pod string, at *field.Path) (Known, field.ErrorList) {
	var errs field.ErrorList
	known := Known{few: make([]*corev1.Volume, 0, min(len(volumes), indexFrom))}
	made := madeForPod(volumes, pod)
	for i := range volumes {
		v, idx := &volumes[i], at.Index(i)
		here := validateSource(v, pod, idx)
		if v.Name == "" {
			here = append(here, field.Required(idx.Child("name"), ""))
		} else {
			here = append(here, check.Label(v.Name, idx, "name")...)
		}
		if known.Find(v.Name) != nil {
			here = append(here, field.Duplicate(idx.Child("name"), v.Name))
		}
		if len(here) == 0 {
			known.add(v)
		}
		errs = append(errs, here...)
		if c := v.PersistentVolumeClaim; c != nil && made[c.ClaimName] {
			errs = append(errs, field.Invalid(idx.Child("persistentVolumeClaim", "claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return known, errs
}

// madeForPod returns the names of the claims of a pod's ephemeral volumes.
func madeForPod(volumes []corev1.Volume, pod string) map[string]bool {
	var made map[string]bool
	for i := range volumes {
		if volumes[i].Ephemeral == nil || pod == "" {
			continue
		}
		if made == nil {
			made = map[string]bool{}
		}
		made[pod+"-"+volumes[i].Name] = true
	}
	return made
}

// one collects the errors of a volume, which must have exactly one source.
type one struct {
	at   *field.Path
	n    int
	errs field.ErrorList
}

// first reports whether a set source is the first one, which the caller checks. It adds an error for a further one.
func (o *one) first(there bool, name string) bool {
	if !there {
		return false
	}
	o.n++
	if o.n > 1 {
		o.n = 1
		o.errs = append(o.errs, field.Forbidden(o.at.Child(name), "may not specify more than 1 volume type"))
		return false
	}
	return true
}

func (o *one) add(errs field.ErrorList) { o.errs = append(o.errs, errs...) }

func validateSource(v *corev1.Volume, pod string, at *field.Path) field.ErrorList {
	o := one{at: at}
	s := &v.VolumeSource
	if o.first(s.EmptyDir != nil, "emptyDir") && s.EmptyDir.SizeLimit != nil && s.EmptyDir.SizeLimit.Sign() < 0 {
		o.errs = append(o.errs, field.Forbidden(at.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity"))
	}
	if o.first(s.HostPath != nil, "hostPath") {
		o.add(validateHostPath(s.HostPath, at.Child("hostPath")))
	}
	if o.first(s.GitRepo != nil, "gitRepo") {
		o.add(validateGitRepo(s.GitRepo, at.Child("gitRepo")))
	}
	if o.first(s.GCEPersistentDisk != nil, "gcePersistentDisk") {
		o.add(validateGCEDisk(s.GCEPersistentDisk, at.Child("persistentDisk")))
	}
	if o.first(s.AWSElasticBlockStore != nil, "awsElasticBlockStore") {
		o.add(validateAWSDisk(s.AWSElasticBlockStore, at.Child("awsElasticBlockStore")))
	}
	if o.first(s.Secret != nil, "secret") {
		o.add(validateSecret(s.Secret, at.Child("secret")))
	}
	o.network(v)
	if o.first(s.Projected != nil, "projected") {
		o.add(validateProjected(s.Projected, at.Child("projected")))
	}
	if o.first(s.ScaleIO != nil, "scaleIO") {
		o.add(validateScaleIO(s.ScaleIO, at.Child("scaleIO")))
	}
	if o.first(s.CSI != nil, "csi") {
		o.add(validateCSI(s.CSI, at.Child("csi")))
	}
	if o.first(s.Ephemeral != nil, "ephemeral") {
		o.add(validateEphemeral(s.Ephemeral, at.Child("ephemeral")))
		o.add(validateClaimName(v.Name, pod, at))
	}
	if o.first(s.Image != nil, "image") {
		o.add(validateImage(s.Image, pod, at.Child("image")))
	}
	if o.n == 0 {
		o.errs = append(o.errs, field.Required(at, "must specify a volume type"))
	}
	return o.errs
}

// network checks a part of the sources, most of which are in-tree drivers of network storage.
func (o *one) network(v *corev1.Volume) {
	s, at := &v.VolumeSource, o.at
	if o.first(s.NFS != nil, "nfs") {
		o.add(validateNFS(s.NFS, at.Child("nfs")))
	}
	if s.ISCSI != nil {
		if o.first(true, "iscsi") {
			o.add(validateISCSI(s.ISCSI, at.Child("iscsi")))
		}
		if s.ISCSI.InitiatorName != nil && len(v.Name)+1+len(s.ISCSI.TargetPortal) > 64 {
			o.errs = append(o.errs, field.Invalid(at.Child("name"), v.Name,
				"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
		}
	}
	if o.first(s.Glusterfs != nil, "glusterfs") {
		o.add(required(at.Child("glusterfs"), "endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path))
	}
	if o.first(s.Flocker != nil, "flocker") {
		o.add(validateFlocker(s.Flocker, at.Child("flocker")))
	}
	if o.first(s.PersistentVolumeClaim != nil, "persistentVolumeClaim") {
		o.add(required(at.Child("persistentVolumeClaim"), "claimName", s.PersistentVolumeClaim.ClaimName))
	}
	if o.first(s.RBD != nil, "rbd") {
		o.add(validateRBD(s.RBD, at.Child("rbd")))
	}
	if o.first(s.Cinder != nil, "cinder") {
		o.add(required(at.Child("cinder"), "volumeID", s.Cinder.VolumeID))
		o.add(secretRef(s.Cinder.SecretRef, at.Child("cinder")))
	}
	if o.first(s.CephFS != nil, "cephFS") && len(s.CephFS.Monitors) == 0 {
		o.errs = append(o.errs, field.Required(at.Child("cephfs", "monitors"), ""))
	}
	if o.first(s.Quobyte != nil, "quobyte") {
		o.add(validateQuobyte(s.Quobyte, at.Child("quobyte")))
	}
	if o.first(s.DownwardAPI != nil, "downwarAPI") { // Kubernetes' spelling
		o.add(validateDownward(s.DownwardAPI, at.Child("downwardAPI")))
	}
	if o.first(s.FC != nil, "fc") {
		o.add(validateFC(s.FC, at.Child("fc")))
	}
	if o.first(s.FlexVolume != nil, "flexVolume") {
		o.add(validateFlex(s.FlexVolume, at.Child("flexVolume")))
	}
	if o.first(s.ConfigMap != nil, "configMap") {
		o.add(validateConfigMap(s.ConfigMap, at.Child("configMap")))
	}
	if o.first(s.AzureFile != nil, "azureFile") {
		o.add(required(at.Child("azureFile"), "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName))
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
	if o.first(s.AzureDisk != nil, "azureDisk") {
		o.add(validateAzureDisk(s.AzureDisk, at.Child("azureDisk")))
	}
	if o.first(s.StorageOS != nil, "storageos") {
		o.add(validateStorageOS(s.StorageOS, at.Child("storageos")))
	}
}

// validateClaimName checks the name of an ephemeral volume's claim.
func validateClaimName(volume, pod string, at *field.Path) field.ErrorList {
	if pod == "" || volume == "" {
		return nil
	}
	var errs field.ErrorList
	claim := pod + "-" + volume
	for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
		errs = append(errs, field.Invalid(at.Child("name"), volume, fmt.Sprintf("PVC name %q: %v", claim, msg)))
	}
	return errs
}

// required checks that named strings are not empty: name, value, name, value …
func required(at *field.Path, pairs ...string) field.ErrorList {
	var errs field.ErrorList
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			errs = append(errs, field.Required(at.Child(pairs[i]), ""))
		}
	}
	return errs
}

func secretRef(ref *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref != nil && ref.Name == "" {
		return field.ErrorList{field.Required(at.Child("secretRef", "name"), "")}
	}
	return nil
}
