package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
	corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
}

func validateHostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := NoBacksteps(h.Path, at, "path")
	if h.Type != nil {
		errs = append(errs, check.OneOf(*h.Type, hostPathTypes, at, "type")...)
	}
	return errs
}

func validateGitRepo(g *corev1.GitRepoVolumeSource, at *field.Path) field.ErrorList {
	return append(required(at, "repository", g.Repository), Descending(g.Directory, at, "directory")...)
}

func validateSecret(s *corev1.SecretVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(at, "secretName", s.SecretName), mode(s.DefaultMode, at, "defaultMode")...)
	return append(errs, keysToPaths(s.Items, at)...)
}

func validateConfigMap(c *corev1.ConfigMapVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(at, "name", c.Name), mode(c.DefaultMode, at, "defaultMode")...)
	return append(errs, keysToPaths(c.Items, at)...)
}

func keysToPaths(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		errs = append(errs, keyToPath(&items[i], at.Child("items").Index(i))...)
	}
	return errs
}

func keyToPath(k *corev1.KeyToPath, at *field.Path) field.ErrorList {
	errs := required(at, "key", k.Key, "path", k.Path)
	errs = append(errs, NotReserved(k.Path, at, "path")...)
	return append(errs, mode(k.Mode, at, "mode")...)
}

func validateDownward(d *corev1.DownwardAPIVolumeSource, at *field.Path) field.ErrorList {
	errs := mode(d.DefaultMode, at, "defaultMode")
	for i := range d.Items {
		errs = append(errs, downwardFile(&d.Items[i], at)...)
	}
	return errs
}

// fileFields are the pod fields that a file may refer to.
var fileFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}

func downwardFile(f *corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	errs := append(required(at, "path", f.Path), NotReserved(f.Path, at, "path")...)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, FieldRef(f.FieldRef, fileFields, at.Child("fieldRef"))...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		errs = append(errs, ResourceFieldRef(f.ResourceFieldRef, true, at.Child("resourceFieldRef"))...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, mode(f.Mode, at, "mode")...)
}

var pullPolicies = []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}

// ValidatePullPolicy checks a pull policy.
func ValidatePullPolicy(p corev1.PullPolicy, at *field.Path, child ...string) field.ErrorList {
	return check.Named(p, pullPolicies, at, child...)
}

// validateImage accepts a template without an image, which a controller may set.
func validateImage(i *corev1.ImageVolumeSource, pod string, at *field.Path) field.ErrorList {
	errs := ValidatePullPolicy(i.PullPolicy, at, "pullPolicy")
	if pod == "" {
		return errs
	}
	return append(required(at, "reference", i.Reference), errs...)
}
