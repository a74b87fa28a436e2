package volume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateEphemeral(e *corev1.EphemeralVolumeSource, at *field.Path) field.ErrorList {
	t := e.VolumeClaimTemplate
	if t == nil {
		return field.ErrorList{field.Required(at.Child("volumeClaimTemplate"), "")}
	}
	at = at.Child("volumeClaimTemplate")
	return append(TemplateMeta(&t.ObjectMeta, at.Child("metadata")), ValidateClaimSpec(&t.Spec, at.Child("spec"))...)
}

// TemplateMeta rejects metadata other than labels and annotations in a template.
func TemplateMeta(m *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	errs := append(validation.ValidateAnnotations(m.Annotations, at.Child("annotations")), check.Labels(m.Labels, at, "labels")...)
	set := []struct {
		name string
		is   bool
	}{
		{"name", m.Name != ""}, {"generateName", m.GenerateName != ""}, {"namespace", m.Namespace != ""}, {"selfLink", m.SelfLink != ""},
		{"uID", m.UID != ""}, {"resourceVersion", m.ResourceVersion != ""}, {"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()}, {"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil}, {"ownerReferences", m.OwnerReferences != nil},
		{"finalizers", m.Finalizers != nil}, {"managedFields", m.ManagedFields != nil},
	}
	for _, f := range set {
		if f.is {
			errs = append(errs, field.Forbidden(at.Child(f.name), "cannot be set"))
		}
	}
	return errs
}

var (
	accessModes = []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	volumeModes = []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
)

// ValidateClaimSpec checks the spec of a PersistentVolumeClaim or a template of one.
func ValidateClaimSpec(s *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(at.Child("accessModes"), "at least 1 access mode is required"))
	}
	if s.Selector != nil {
		errs = append(errs, check.Selector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	}
	errs = append(errs, ValidateAccess(s.AccessModes, at.Child("accessModes"))...)
	storage := at.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(storage, ""))
	} else if size.Sign() <= 0 {
		errs = append(errs, field.Invalid(storage, size.String(), "must be greater than zero"))
	}
	if s.StorageClassName != nil && *s.StorageClassName != "" {
		errs = append(errs, check.Subdomain(*s.StorageClassName, at, "storageClassName")...)
	}
	if s.VolumeMode != nil {
		errs = append(errs, check.OneOf(*s.VolumeMode, volumeModes, at, "volumeMode")...)
	}
	if s.DataSource != nil {
		errs = append(errs, claimSource(s.DataSource.APIGroup, s.DataSource.Kind, s.DataSource.Name, at.Child("dataSource"))...)
	}
	if ref := s.DataSourceRef; ref != nil {
		errs = append(errs, claimSource(ref.APIGroup, ref.Kind, ref.Name, at.Child("dataSourceRef"))...)
		if elsewhere(ref) {
			errs = append(errs, check.Label(*ref.Namespace, at.Child("dataSourceRef"), "namespace")...)
		}
	}
	if s.DataSource != nil && s.DataSourceRef != nil {
		errs = append(errs, bothSources(s.DataSource, s.DataSourceRef, at)...)
	}
	if s.VolumeAttributesClassName != nil && *s.VolumeAttributesClassName != "" {
		errs = append(errs, check.Subdomain(*s.VolumeAttributesClassName, at, "volumeAttributesClassName")...)
	}
	return errs
}

func elsewhere(ref *corev1.TypedObjectReference) bool {
	return ref.Namespace != nil && *ref.Namespace != ""
}

// bothSources checks that dataSource and dataSourceRef agree. As in Kubernetes, the error's value is shown as {}.
func bothSources(source *corev1.TypedLocalObjectReference, ref *corev1.TypedObjectReference, at *field.Path) field.ErrorList {
	switch {
	case elsewhere(ref):
		return field.ErrorList{field.Invalid(at, struct{}{}, "may not be specified when dataSourceRef.namespace is specified")}
	case !sameSource(source, ref):
		return field.ErrorList{field.Invalid(at, struct{}{}, "must match dataSourceRef")}
	}
	return nil
}

func sameSource(a *corev1.TypedLocalObjectReference, b *corev1.TypedObjectReference) bool {
	group := func(g *string) string {
		if g == nil {
			return ""
		}
		return *g
	}
	return a.Kind == b.Kind && a.Name == b.Name && group(a.APIGroup) == group(b.APIGroup)
}

// ValidateAccess checks access modes.
func ValidateAccess(modes []corev1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	oncePod, other := false, false
	for _, m := range modes {
		errs = append(errs, check.OneOf(m, accessModes, at)...)
		oncePod = oncePod || m == corev1.ReadWriteOncePod
		other = other || m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	}
	if oncePod && other {
		errs = append(errs, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// claimSource checks a data source of a claim.
func claimSource(group *string, kind, name string, at *field.Path) field.ErrorList {
	errs := required(at, "name", name, "kind", kind)
	if group == nil || *group == "" {
		if kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
		return errs
	}
	return append(errs, check.Subdomain(*group, at, "apiGroup")...)
}

// ClaimWarnings warns about fractional bytes.
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, at *field.Path) []string {
	var out []string
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"requests", s.Resources.Requests}, {"limits", s.Resources.Limits}} {
		if q := list.of[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				at.Child("resources", list.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return out
}
