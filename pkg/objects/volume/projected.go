package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateProjected(p *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	v := projection{at: at, errs: mode(p.DefaultMode, at, "defaultMode")}
	for i := range p.Sources {
		v.source(&p.Sources[i], at.Child("sources").Index(i))
	}
	return v.errs
}

// projection collects the errors of a projected volume and the paths of its files.
type projection struct {
	at    *field.Path
	paths check.Seen[string]
	errs  field.ErrorList
}

func (v *projection) add(errs field.ErrorList) { v.errs = append(v.errs, errs...) }

// take records a path. The error about a duplicate names owner.
func (v *projection) take(path, owner string) {
	if v.paths.Again(path) {
		v.errs = append(v.errs, field.Invalid(v.at, owner, "conflicting duplicate paths"))
	}
}

func (v *projection) source(s *corev1.VolumeProjection, at *field.Path) {
	n := 0
	if s.Secret != nil {
		n++
		v.items(s.Secret.Name, s.Secret.Items, at.Child("secret"))
	}
	if s.ConfigMap != nil {
		n++
		v.items(s.ConfigMap.Name, s.ConfigMap.Items, at.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		n++
		for i := range s.DownwardAPI.Items {
			file := &s.DownwardAPI.Items[i]
			v.add(downwardFile(file, at.Child("downwardAPI")))
			if file.Path != "" {
				v.take(file.Path, file.Path)
			}
		}
	}
	if s.ServiceAccountToken != nil {
		n++
		v.token(s.ServiceAccountToken, at.Child("serviceAccountToken"))
	}
	if n > 1 {
		v.errs = append(v.errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
	}
}

func (v *projection) items(name string, items []corev1.KeyToPath, at *field.Path) {
	v.add(required(at, "name", name))
	for i := range items {
		v.add(keyToPath(&items[i], at.Child("items").Index(i)))
		if items[i].Path != "" {
			v.take(items[i].Path, name)
		}
	}
}

func (v *projection) token(t *corev1.ServiceAccountTokenProjection, at *field.Path) {
	if seconds := t.ExpirationSeconds; seconds != nil {
		if *seconds < 600 {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), *seconds, "may not specify a duration less than 10 minutes"))
		}
		if *seconds > 1<<32 {
			v.errs = append(v.errs, field.Invalid(at.Child("expirationSeconds"), *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if t.Path == "" {
		v.errs = append(v.errs, field.Required(v.at.Child("path"), ""))
		return
	}
	v.add(NotReserved(t.Path, v.at.Child("path")))
}
