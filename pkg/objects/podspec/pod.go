package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePod checks the annotations and the spec of a pod, in a create (old is nil) or an update.
func ValidatePod(p, old *corev1.Pod, metadata, at *field.Path) field.ErrorList {
	errs := Annotations(p.Annotations, &p.Spec, metadata.Child("annotations"))
	o := Options{Pod: true, Name: p.Name}
	if old != nil {
		o.Old = &old.Spec
	}
	errs = append(errs, Validate(&p.Spec, o, at)...)
	if p.Spec.ServiceAccountName == "" {
		errs = append(errs, tokensWithoutAccount(p.Spec.Volumes, at.Child("volumes"))...)
	}
	for i := range p.Spec.Containers {
		errs = append(errs, imageSpaces(&p.Spec.Containers[i], i, at, "containers")...)
	}
	for i := range p.Spec.InitContainers {
		errs = append(errs, imageSpaces(&p.Spec.InitContainers[i], i, at, "initContainers")...)
	}
	return errs
}

func tokensWithoutAccount(volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range volumes {
		if volumes[i].Projected == nil {
			continue
		}
		for j := range volumes[i].Projected.Sources {
			if volumes[i].Projected.Sources[j].ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(at.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return errs
}
