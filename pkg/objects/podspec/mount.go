package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

func (v *validator) mounts(c *corev1.Container, at *field.Path) field.ErrorList {
	if len(c.VolumeMounts) == 0 {
		return nil
	}
	at = at.Child("volumeMounts")
	var errs field.ErrorList
	var paths check.Seen[string]
	devices := rawDevices(c.VolumeDevices)
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		source, taken := v.volumes.Find(m.Name), paths.Again(m.MountPath)
		if source != nil && !taken && plainMount(c, m) {
			continue
		}
		idx := at.Index(i)
		if m.Name == "" {
			errs = append(errs, field.Required(idx.Child("name"), ""))
		}
		if source == nil {
			errs = append(errs, field.NotFound(idx.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(idx.Child("mountPath"), ""))
		}
		if taken {
			errs = append(errs, field.Invalid(idx.Child("mountPath"), m.MountPath, "must be unique"))
		}
		errs = append(errs, devices.refuse(m, idx)...)
		errs = append(errs, subPaths(m, at, idx)...)
		errs = append(errs, propagation(c, m, at)...)
		errs = append(errs, recursiveReadOnly(m, at.Child("recursiveReadOnly"))...)
	}
	return errs
}

// plainMount reports whether a mount has only a valid name and path.
func plainMount(c *corev1.Container, m *corev1.VolumeMount) bool {
	return m.Name != "" && m.MountPath != "" && m.SubPath == "" && m.SubPathExpr == "" && m.MountPropagation == nil &&
		m.RecursiveReadOnly == nil && len(c.VolumeDevices) == 0
}

// raw has the names and paths of a container's volumeDevices. Of several with one name the last path counts.
type raw struct {
	paths map[string]string // by name
	taken map[string]bool
}

func rawDevices(devices []corev1.VolumeDevice) raw {
	if len(devices) == 0 {
		return raw{}
	}
	r := raw{map[string]string{}, map[string]bool{}}
	for i := range devices {
		r.paths[devices[i].Name] = devices[i].DevicePath
	}
	for _, path := range r.paths {
		r.taken[path] = true
	}
	return r
}

// refuse rejects a mount of a volume that is also a volumeDevice of the container.
func (r raw) refuse(m *corev1.VolumeMount, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if _, ok := r.paths[m.Name]; ok {
		errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
	}
	if r.taken[m.MountPath] {
		errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
	}
	return errs
}

// subPaths checks subPath and subPathExpr. Some errors have the path of the list instead of the mount, as in Kubernetes.
func subPaths(m *corev1.VolumeMount, list, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.SubPath != "" {
		errs = append(errs, volume.Descending(m.SubPath, list, "subPath")...)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		errs = append(errs, volume.Descending(m.SubPathExpr, list, "subPathExpr")...)
	}
	return errs
}

var propagations = []corev1.MountPropagationMode{
	corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone,
}

func propagation(c *corev1.Container, m *corev1.VolumeMount, list *field.Path) field.ErrorList {
	if m.MountPropagation == nil {
		return nil
	}
	at := list.Child("mountPropagation")
	errs := check.OneOf(*m.MountPropagation, propagations, at)
	if *m.MountPropagation == corev1.MountPropagationBidirectional && !isPrivileged(c.SecurityContext) {
		errs = append(errs, field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
	}
	return errs
}

func isPrivileged(s *corev1.SecurityContext) bool {
	return s != nil && s.Privileged != nil && *s.Privileged
}

var recursions = []corev1.RecursiveReadOnlyMode{
	corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible,
}

func recursiveReadOnly(m *corev1.VolumeMount, at *field.Path) field.ErrorList {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return nil
	}
	errs := check.OneOf(*m.RecursiveReadOnly, recursions, at)
	if errs != nil {
		return errs
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}

func (v *validator) devices(c *corev1.Container, at *field.Path) field.ErrorList {
	if len(c.VolumeDevices) == 0 {
		return nil
	}
	at = at.Child("volumeDevices")
	var errs field.ErrorList
	var names, paths, mounted, mountedAt check.Seen[string]
	for i := range c.VolumeMounts {
		mounted.Again(c.VolumeMounts[i].Name)
		mountedAt.Again(c.VolumeMounts[i].MountPath)
	}
	for i := range c.VolumeDevices {
		d, idx := &c.VolumeDevices[i], at.Index(i)
		source := v.volumes.Find(d.Name)
		if d.Name == "" {
			errs = append(errs, field.Required(idx.Child("name"), ""))
		}
		if d.Name != "" && names.Again(d.Name) {
			errs = append(errs, field.Invalid(idx.Child("name"), d.Name, "must be unique"))
		}
		if source != nil && source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			errs = append(errs, field.Invalid(idx.Child("name"), d.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		if source == nil {
			errs = append(errs, field.NotFound(idx.Child("name"), d.Name))
		}
		if d.DevicePath == "" {
			errs = append(errs, field.Required(idx.Child("devicePath"), ""))
		}
		if paths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(idx.Child("devicePath"), d.DevicePath, "must be unique"))
		}
		if volume.NoBacksteps(d.DevicePath, at) != nil {
			errs = append(errs, field.Invalid(idx.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Again(d.DevicePath)
		}
		if mounted.Has(d.Name) {
			errs = append(errs, field.Invalid(idx.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if mountedAt.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(idx.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
	}
	return errs
}
