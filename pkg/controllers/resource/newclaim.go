package resource

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBase bounds the base of a generated name, which five random characters follow.
const maxBase = 57

// newClaim returns the claim of a pod from a template. name is that of the claim in the pod.
func newClaim(pod *corev1.Pod, name string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	template = template.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, template.Spec.Annotations)
	annotations[resourcev1.PodResourceClaimAnnotation] = name
	isController := true
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: generatedBase(pod.Name, name), Namespace: pod.Namespace, Annotations: annotations, Labels: template.Spec.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isController}},
		},
		Spec: template.Spec.Spec,
	}
}

// generatedBase returns the base of the name of a claim. Long names of pods and claims are cut in proportion to their lengths.
func generatedBase(pod, claim string) string {
	base := pod + "-" + claim + "-"
	if n := len(base); n > maxBase {
		return pod[:len(pod)*maxBase/n] + "-" + claim[:len(claim)*maxBase/n]
	}
	return base
}
