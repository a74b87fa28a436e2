package core

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

var (
	claimDoc       = corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()
	claimStatusDoc = corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
)

// PersistentVolumeClaims is the row of PersistentVolumeClaim.
var PersistentVolumeClaims = objects.Def[*corev1.PersistentVolumeClaim]{
	Names:         objects.Names{Version: "v1", Kind: "PersistentVolumeClaim", Plural: "persistentvolumeclaims", Short: []string{"pvc"}},
	ApplyPriority: 20,
	New:           func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
	Controller:    "persistentvolume-controller",
	NewList:       func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
	Default:       DefaultClaim,
	Prepare:       prepareClaim,
	Validate:      validateClaim,
	Warnings:      claimWarnings,
	Columns: []objects.Column[*corev1.PersistentVolumeClaim]{
		objects.NameColumn[*corev1.PersistentVolumeClaim](),
		{Name: "Status", Description: claimStatusDoc["phase"], Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any {
			if c.DeletionTimestamp != nil {
				return "Terminating"
			}
			return string(c.Status.Phase)
		}},
		{Name: "Volume", Description: claimDoc["volumeName"], Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any { return c.Spec.VolumeName }},
		{Name: "Capacity", Description: claimStatusDoc["capacity"], Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			q := c.Status.Capacity[corev1.ResourceStorage]
			return q.String()
		}},
		{Name: "Access Modes", Description: claimStatusDoc["accessModes"], Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return shortModes(c.Status.AccessModes)
		}},
		{Name: "StorageClass", Description: "StorageClass of the pvc", Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any { return claimClass(c) }},
		{Name: "VolumeAttributesClass", Description: "VolumeAttributesClass of the pvc",
			Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any {
				return orUnset(c.Spec.VolumeAttributesClassName)
			}},
		objects.AgeColumn[*corev1.PersistentVolumeClaim](),
		{Name: "VolumeMode", Wide: true, Description: claimDoc["volumeMode"],
			Cell: func(c *corev1.PersistentVolumeClaim, _ time.Time) any { return orUnset(c.Spec.VolumeMode) }},
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.PersistentVolumeClaim]{
		Prepare:  func(c, old *corev1.PersistentVolumeClaim) { c.Spec = old.Spec },
		Validate: validateClaimStatus,
		Reset:    []string{"spec"},
	},
	ReturnsDeleted: true,
}

func claimClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName == nil {
		return ""
	}
	return *c.Spec.StorageClassName
}

// DefaultClaim sets the defaults of a claim or a template of one.
func DefaultClaim(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	volume.DefaultClaimSpec(&c.Spec)
}

func prepareClaim(c, old *corev1.PersistentVolumeClaim) {
	s := &c.Spec
	if old == nil {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	} else {
		c.Status = old.Status
	}
	if old == nil || old.Spec.DataSourceRef == nil {
		sameNamespace(s)
	}
	kept := old != nil && (old.Spec.DataSource != nil || old.Spec.DataSourceRef != nil)
	if !kept && s.DataSourceRef == nil && !plainSource(s.DataSource) {
		s.DataSource = nil // unsupported sources are dropped for compatibility
	}
	bothSources(s)
}

// sameNamespace drops the namespace of a data source, whose feature gate is off.
func sameNamespace(s *corev1.PersistentVolumeClaimSpec) {
	if elsewhere(s.DataSourceRef) {
		s.DataSourceRef = nil
	}
}

func elsewhere(ref *corev1.TypedObjectReference) bool {
	return ref != nil && ref.Namespace != nil && *ref.Namespace != ""
}

func plainSource(s *corev1.TypedLocalObjectReference) bool {
	if s == nil {
		return false
	}
	group := ""
	if s.APIGroup != nil {
		group = *s.APIGroup
	}
	return s.Kind == "PersistentVolumeClaim" && group == "" || s.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

// bothSources sets dataSource from dataSourceRef, or the reverse.
func bothSources(s *corev1.PersistentVolumeClaimSpec) {
	switch {
	case s.DataSource != nil && s.DataSourceRef == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.DataSource.APIGroup, Kind: s.DataSource.Kind, Name: s.DataSource.Name}
	case s.DataSourceRef != nil && s.DataSource == nil && !elsewhere(s.DataSourceRef):
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: s.DataSourceRef.APIGroup, Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name}
	}
}

func validateClaim(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	at := field.NewPath("spec")
	errs := append(check.Meta(c, true, apivalidation.NameIsDNSSubdomain), volume.ValidateClaimSpec(&c.Spec, at)...)
	if old == nil {
		return errs
	}
	errs = append(check.MetaUpdate(c, old), errs...)
	now, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	bothSources(was)
	if was.VolumeName == "" {
		was.VolumeName = now.VolumeName // the binder sets it
	}
	errs = append(errs, classChange(c, old, now, was)...)
	if old.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = was.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(at,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"+podspec.DiffValues(was, now)))
	}
	errs = append(errs, sizeChange(c, old, at.Child("resources", "requests", "storage"))...)
	errs = append(errs, check.Immutable(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Status.CurrentVolumeAttributesClassName == nil || equality.Semantic.DeepEqual(c.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName) {
		return errs
	}
	class := at.Child("volumeAttributesClassName")
	switch name := c.Spec.VolumeAttributesClassName; {
	case name == nil:
		errs = append(errs, field.Forbidden(class, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
	case *name == "":
		errs = append(errs, field.Forbidden(class, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
	}
	return errs
}

// classChange accepts a class for a claim without one, also the class of the deprecated annotation.
func classChange(c, old *corev1.PersistentVolumeClaim, now, was *corev1.PersistentVolumeClaimSpec) field.ErrorList {
	annotation, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	later, still := c.Annotations[corev1.BetaStorageClassAnnotation]
	gets := old.Spec.StorageClassName == nil && c.Spec.StorageClassName != nil
	same := gets && (!annotated || *c.Spec.StorageClassName == annotation)
	if same && annotated && (!still || later == annotation) {
		now.StorageClassName = nil
		return nil
	}
	if same {
		now.StorageClassName = was.StorageClassName
	}
	if later == annotation {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), later, apivalidation.FieldImmutableErrorMsg)}
}

func sizeChange(c, old *corev1.PersistentVolumeClaim, at *field.Path) field.ErrorList {
	size, was := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := old.Status.Capacity[corev1.ResourceStorage]; size.Cmp(was) < 0 && size.Cmp(has) <= 0 {
		return field.ErrorList{field.Forbidden(at, "field can not be less than status.capacity")}
	}
	return nil
}

var resizeStates = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
}

func validateClaimStatus(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := check.MetaUpdate(c, old)
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	at := field.NewPath("status")
	for name, q := range c.Status.Capacity {
		errs = append(errs, basicQuantity(q, at.Child("capacity").Key(string(name)))...)
	}
	for name, state := range c.Status.AllocatedResourceStatuses {
		key := at.Child("allocatedResourceStatuses")
		errs = append(errs, claimResource(name, key)...)
		if !slices.Contains(resizeStates, state) {
			sorted := slices.Sorted(slices.Values(resizeStates))
			errs = append(errs, field.NotSupported(key, corev1.ClaimResourceStatus(name), sorted))
		}
	}
	for name, q := range c.Status.AllocatedResources {
		key := at.Child("allocatedResources")
		if wrong := claimResource(name, key); len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		if wrong := basicQuantity(q, key.Key(string(name))); len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		errs = append(errs, podspec.ResourceQuantity(corev1.ResourceStorage, q, key.Key(string(name)))...)
	}
	return errs
}

func basicQuantity(q resource.Quantity, at *field.Path) field.ErrorList {
	if q.Value() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.Value(), "must be a valid resource quantity")}
}

// claimResource checks the name of a resource of a claim: storage, or one with a domain.
func claimResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := check.Invalid(at, string(name), utilvalidation.IsQualifiedName(string(name))); len(errs) > 0 {
		return errs
	}
	if podspec.IsExtended(name) || name == corev1.ResourceStorage {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, string(name), []corev1.ResourceName{corev1.ResourceStorage})}
}

func claimWarnings(c, _ *corev1.PersistentVolumeClaim) []string {
	var out []string
	if _, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, fmt.Sprintf(`metadata.annotations[%s]: deprecated since v1.8; use "storageClassName" attribute instead`, corev1.BetaStorageClassAnnotation))
	}
	return append(out, volume.ClaimWarnings(&c.Spec, check.Spec)...)
}
