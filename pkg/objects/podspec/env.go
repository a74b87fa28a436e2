package podspec

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

func (v *validator) env(vars []corev1.EnvVar, at *field.Path) field.ErrorList {
	if len(vars) == 0 {
		return nil
	}
	at = at.Child("env")
	var errs field.ErrorList
	for i := range vars {
		e := &vars[i]
		if e.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), ""))
		} else if wrong := utilvalidation.IsRelaxedEnvVarName(e.Name); wrong != nil {
			errs = append(errs, check.Invalid(at.Index(i).Child("name"), e.Name, wrong)...)
		}
		if e.ValueFrom != nil {
			errs = append(errs, v.valueFrom(e, at.Index(i).Child("valueFrom"))...)
		}
	}
	return errs
}

// envFields are the pod fields that a variable may refer to.
var envFields = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

func (v *validator) valueFrom(e *corev1.EnvVar, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	from := e.ValueFrom
	if from.FieldRef != nil {
		n++
		errs = append(errs, volume.FieldRef(from.FieldRef, envFields, at.Child("fieldRef"))...)
	}
	if from.ResourceFieldRef != nil {
		n++
		errs = append(errs, volume.ResourceFieldRef(from.ResourceFieldRef, false, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		n++
		errs = append(errs, keyRef(ref.Name, ref.Key, at.Child("configMapKeyRef"))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		n++
		errs = append(errs, keyRef(ref.Name, ref.Key, at.Child("secretKeyRef"))...)
	}
	if from.FileKeyRef != nil {
		n++
		errs = append(errs, fileKeyRef(from.FileKeyRef, at.Child("fileKeyRef"))...)
	}
	switch {
	case n == 0:
		errs = append(errs, field.Invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case e.Value != "":
		errs = append(errs, field.Invalid(at, "", "may not be specified when `value` is not empty"))
	case n > 1:
		errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func keyRef(name, key string, at *field.Path) field.ErrorList {
	errs := check.Subdomain(name, at, "name")
	if key == "" {
		return append(errs, field.Required(at.Child("key"), ""))
	}
	return append(errs, check.ConfigKey(key, at, "key")...)
}

func fileKeyRef(ref *corev1.FileKeySelector, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref.Key == "" {
		errs = append(errs, field.Required(at.Child("key"), ""))
	} else {
		errs = append(errs, check.Invalid(at.Child("key"), ref.Key, utilvalidation.IsRelaxedEnvVarName(ref.Key))...)
	}
	if ref.VolumeName == "" {
		errs = append(errs, field.Required(at.Child("volumeName"), ""))
	} else {
		errs = append(errs, check.Label(ref.VolumeName, at, "volumeName")...)
	}
	if ref.Path == "" {
		return append(errs, field.Required(at.Child("path"), ""))
	}
	return append(errs, volume.NoBacksteps(ref.Path, at, "path")...)
}

// fileKeyVolumes checks that variables from files refer to emptyDir volumes.
func (v *validator) fileKeyVolumes(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var volumes map[string]*corev1.Volume // the first one by name
	for where, c := range containersOf(v.spec) {
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from == nil || from.FileKeyRef == nil {
				continue
			}
			name := from.FileKeyRef.VolumeName
			wrong := where.below(at).Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			if volumes == nil {
				volumes = map[string]*corev1.Volume{}
				for j := range slices.Backward(v.spec.Volumes) {
					volumes[v.spec.Volumes[j].Name] = &v.spec.Volumes[j]
				}
			}
			if volumes[name] == nil {
				errs = append(errs, field.NotFound(wrong, name))
			} else if volumes[name].EmptyDir == nil {
				errs = append(errs, field.Invalid(wrong, name, "referenced volume must be of type emptyDir"))
			}
		}
	}
	return errs
}

// containersOf yields all containers of a spec: init containers, containers, ephemeral ones.
func containersOf(s *corev1.PodSpec) iter.Seq2[place, *corev1.Container] {
	return func(yield func(place, *corev1.Container) bool) {
		for i := range s.InitContainers {
			if !yield(place{"initContainers", i}, &s.InitContainers[i]) {
				return
			}
		}
		for i := range s.Containers {
			if !yield(place{"containers", i}, &s.Containers[i]) {
				return
			}
		}
		for i := range s.EphemeralContainers {
			if !yield(place{"ephemeralContainers", i}, (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// place is the position of a container in a spec.
type place struct {
	list string
	i    int
}

func (p place) below(at *field.Path) *field.Path { return at.Child(p.list).Index(p.i) }

func validateEnvFrom(sources []corev1.EnvFromSource, at *field.Path) field.ErrorList {
	if len(sources) == 0 {
		return nil
	}
	at = at.Child("envFrom")
	var errs field.ErrorList
	for i := range sources {
		s, idx := &sources[i], at.Index(i)
		if s.Prefix != "" {
			errs = append(errs, check.Invalid(idx.Child("prefix"), s.Prefix, utilvalidation.IsRelaxedEnvVarName(s.Prefix))...)
		}
		n := 0
		if s.ConfigMapRef != nil {
			n++
			errs = append(errs, envName(s.ConfigMapRef.Name, idx.Child("configMapRef", "name"))...)
		}
		if s.SecretRef != nil {
			n++
			errs = append(errs, envName(s.SecretRef.Name, idx.Child("secretRef", "name"))...)
		}
		switch {
		case n == 0:
			errs = append(errs, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case n > 1:
			errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

func envName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Invalid(at, name, apivalidation.NameIsDNSSubdomain(name, true))
}
