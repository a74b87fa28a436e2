package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// prepareEphemeral restores all but the ephemeral containers from old.
func prepareEphemeral(p, old *corev1.Pod) {
	podspec.DropGated(&p.Spec)
	containers := p.Spec.EphemeralContainers
	p.Spec, p.Status = old.Spec, old.Status
	metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
	p.Spec.EphemeralContainers = containers
	check.Generation(p, old, func() bool { return !check.Same(&p.Spec, &old.Spec) })
}

// validateEphemeral rejects changes of existing ephemeral containers.
func validateEphemeral(p, old *corev1.Pod) field.ErrorList {
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := append(whole(p, old), annotationChanges(p, old)...)
	at := check.Spec.Child("ephemeralContainers")
	places := make(map[string]int, len(p.Spec.EphemeralContainers)) // the last one by name
	for i := range p.Spec.EphemeralContainers {
		places[p.Spec.EphemeralContainers[i].Name] = i
	}
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		j, ok := places[was.Name]
		if !ok {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
			continue
		}
		if now := &p.Spec.EphemeralContainers[j]; !equality.Semantic.DeepEqual(was, now) {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, podspec.DiffContainer(was, now))))
		}
	}
	return errs
}
