package core

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

const unset = "<unset>"

var (
	volumeDoc       = corev1.PersistentVolumeSpec{}.SwaggerDoc()
	volumeStatusDoc = corev1.PersistentVolumeStatus{}.SwaggerDoc()
)

// PersistentVolumes is the row of PersistentVolume.
var PersistentVolumes = objects.Def[*corev1.PersistentVolume]{
	Names:         objects.Names{Version: "v1", Kind: "PersistentVolume", Plural: "persistentvolumes", Short: []string{"pv"}, Cluster: true},
	ApplyPriority: 30,
	New:           func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} },
	NewList:       func() runtime.Object { return &corev1.PersistentVolumeList{} },
	Default:       defaultPersistentVolume,
	Prepare:       preparePersistentVolume,
	Validate:      validatePersistentVolume,
	Warnings:      persistentVolumeWarnings,
	Columns: []objects.Column[*corev1.PersistentVolume]{
		objects.NameColumn[*corev1.PersistentVolume](),
		{Name: "Capacity", Description: volumeDoc["capacity"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any {
			q := v.Spec.Capacity[corev1.ResourceStorage]
			return q.String()
		}},
		{Name: "Access Modes", Description: volumeDoc["accessModes"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any { return shortModes(v.Spec.AccessModes) }},
		{Name: "Reclaim Policy", Description: volumeDoc["persistentVolumeReclaimPolicy"],
			Cell: func(v *corev1.PersistentVolume, _ time.Time) any { return string(v.Spec.PersistentVolumeReclaimPolicy) }},
		{Name: "Status", Description: volumeStatusDoc["phase"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any {
			if v.DeletionTimestamp != nil {
				return "Terminating"
			}
			return string(v.Status.Phase)
		}},
		{Name: "Claim", Description: volumeDoc["claimRef"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any {
			if v.Spec.ClaimRef == nil {
				return ""
			}
			return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
		}},
		{Name: "StorageClass", Description: "StorageClass of the pv", Cell: func(v *corev1.PersistentVolume, _ time.Time) any {
			if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
				return class
			}
			return v.Spec.StorageClassName
		}},
		{Name: "VolumeAttributesClass", Description: "VolumeAttributesClass of the pv",
			Cell: func(v *corev1.PersistentVolume, _ time.Time) any { return orUnset(v.Spec.VolumeAttributesClassName) }},
		{Name: "Reason", Description: volumeStatusDoc["reason"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any { return v.Status.Reason }},
		objects.AgeColumn[*corev1.PersistentVolume](),
		{Name: "VolumeMode", Wide: true, Description: volumeDoc["volumeMode"], Cell: func(v *corev1.PersistentVolume, _ time.Time) any { return orUnset(v.Spec.VolumeMode) }},
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.PersistentVolume]{
		Prepare:  preparePersistentVolumeStatus,
		Validate: func(v, old *corev1.PersistentVolume) field.ErrorList { return check.MetaUpdate(v, old) },
		Reset:    []string{"spec"},
	},
	ReturnsDeleted: true,
}

func orUnset[S ~string](s *S) string {
	if s == nil {
		return unset
	}
	return string(*s)
}

// shortModes formats access modes for tables.
func shortModes(modes []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}} {
		if slices.Contains(modes, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}

func defaultPersistentVolume(v *corev1.PersistentVolume) {
	if v.Status.Phase == "" {
		v.Status.Phase = corev1.VolumePending
	}
	if v.Spec.PersistentVolumeReclaimPolicy == "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if v.Spec.VolumeMode == nil {
		v.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	if ref := v.Spec.ClaimRef; ref != nil && ref.APIVersion == "" && ref.Kind == "PersistentVolumeClaim" {
		ref.APIVersion = "v1"
	}
	volume.DefaultPersistent(&v.Spec.PersistentVolumeSource)
}

func preparePersistentVolume(v, old *corev1.PersistentVolume) {
	if old != nil {
		v.Status = old.Status
		return
	}
	v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}
	if created := v.CreationTimestamp; !created.IsZero() {
		v.Status.LastPhaseTransitionTime = &created
	}
}

func preparePersistentVolumeStatus(v, old *corev1.PersistentVolume) {
	v.Spec = old.Spec
	if old.Status.Phase == v.Status.Phase && v.Status.LastPhaseTransitionTime == nil {
		v.Status.LastPhaseTransitionTime = old.Status.LastPhaseTransitionTime
	}
}

// validatePersistentVolume reports errors of an update twice, as Kubernetes does.
func validatePersistentVolume(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateVolume(v)
	if old == nil {
		return errs
	}
	return append(append(errs, validateVolume(v)...), validateVolumeChange(v, old)...)
}

func validateVolume(v *corev1.PersistentVolume) field.ErrorList {
	at := field.NewPath("spec")
	errs := append(check.Meta(v, false, apivalidation.NameIsDNSSubdomain), ValidateVolumeSpec(&v.Spec, v.Name, at)...)
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok && !mountable(&v.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation), "may not specify mount options for this volume type"))
	}
	return errs
}

func validateVolumeChange(v, old *corev1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	source := v.Spec.PersistentVolumeSource
	if now, was := source.CSI, old.Spec.CSI; was != nil && was.ControllerExpandSecretRef == nil && now != nil && now.ControllerExpandSecretRef != nil {
		later := *now // a claim reference may be added
		later.ControllerExpandSecretRef = nil
		source.CSI = &later
	}
	if !equality.Semantic.DeepEqual(source, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(at.Child("persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation\n"+podspec.DiffValues(&old.Spec.PersistentVolumeSource, &source)))
	}
	errs = append(errs, check.Immutable(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !equality.Semantic.DeepEqual(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), check.Shown(v.Spec.NodeAffinity),
			apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(at.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// mountable reports whether a volume type supports mount options in the annotation.
func mountable(s *corev1.PersistentVolumeSource) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil ||
		s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

var reclaimPolicies = []corev1.PersistentVolumeReclaimPolicy{
	corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
}

// ValidateVolumeSpec checks the spec of the PersistentVolume called name.
func ValidateVolumeSpec(s *corev1.PersistentVolumeSpec, name string, at *field.Path) field.ErrorList {
	errs := append(volumeAccess(s.AccessModes, at.Child("accessModes")), volumeCapacity(s.Capacity, at.Child("capacity"))...)
	if s.PersistentVolumeReclaimPolicy != "" {
		errs = append(errs, check.OneOf(s.PersistentVolumeReclaimPolicy, reclaimPolicies, at, "persistentVolumeReclaimPolicy")...)
	}
	if s.NodeAffinity != nil {
		required := at.Child("nodeAffinity", "required")
		if s.NodeAffinity.Required == nil {
			errs = append(errs, field.Required(required, "must specify required node constraints"))
		} else {
			errs = append(errs, podspec.NodeSelector(s.NodeAffinity.Required, required)...)
		}
	}
	errs = append(errs, volume.ValidatePersistentSource(&s.PersistentVolumeSource, name, at)...)
	if s.Local != nil && s.NodeAffinity == nil {
		errs = append(errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, check.Subdomain(s.StorageClassName, at, "storageClassName")...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, check.OneOf(*s.VolumeMode, volume.Modes, at, "volumeMode")...)
	}
	return append(errs, attributesClass(s, at)...)
}

// InlineVolume checks a volume spec in another object, which cannot be claimed.
func InlineVolume(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	const inline = "in the context of inline volumes"
	var errs field.ErrorList
	not := func(is bool, name, why string) {
		if is {
			errs = append(errs, field.Forbidden(at.Child(name), why+" "+inline))
		}
	}
	not(s.ClaimRef != nil, "claimRef", "may not be specified")
	not(len(s.Capacity) > 0, "capacity", "may not be specified")
	if s.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified "+inline))
	}
	errs = append(errs, volumeAccess(s.AccessModes, at.Child("accessModes"))...)
	policy := s.PersistentVolumeReclaimPolicy
	not(policy != "" && policy != corev1.PersistentVolumeReclaimRetain, "persistentVolumeReclaimPolicy", "may only be Retain")
	not(s.NodeAffinity != nil, "nodeAffinity", "may not be specified")
	errs = append(errs, volume.ValidatePersistentSource(&s.PersistentVolumeSource, "", at)...)
	not(s.StorageClassName != "", "storageClassName", "may not be specified")
	not(s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem, "volumeMode", "may not specify volumeMode other than Filesystem")
	return append(errs, attributesClass(s, at)...)
}

func attributesClass(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	class := s.VolumeAttributesClassName
	if class == nil {
		return nil
	}
	var errs field.ErrorList
	if *class == "" {
		errs = append(errs, field.Required(at.Child("volumeAttributesClassName"), "an empty string is disallowed"))
	} else {
		errs = append(errs, check.Subdomain(*class, at, "volumeAttributesClassName")...)
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}

func volumeAccess(modes []corev1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	return volume.ValidateAccess(modes, at)
}

func volumeCapacity(capacity corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(capacity) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		errs = append(errs, field.NotSupported(at, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		q, key := capacity[name], at.Key(string(name))
		if q.Value() < 0 {
			errs = append(errs, field.Invalid(key, q.Value(), "must be a valid resource quantity"))
		}
		if q.Sign() <= 0 {
			errs = append(errs, field.Invalid(key, q.String(), "must be greater than zero"))
		}
	}
	return errs
}

func persistentVolumeWarnings(v, _ *corev1.PersistentVolume) []string {
	var out []string
	for _, old := range []struct{ key, message string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, ok := v.Annotations[old.key]; ok {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(old.key), old.message))
		}
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		out = append(out, podspec.NodeSelectorWarnings(a.Required, field.NewPath("spec", "nodeAffinity", "required"))...)
	}
	for _, old := range []struct {
		is            bool
		name, message string
	}{
		{v.Spec.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{v.Spec.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{v.Spec.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{v.Spec.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{v.Spec.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{v.Spec.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if old.is {
			out = append(out, "spec."+old.name+": "+old.message)
		}
	}
	return out
}
