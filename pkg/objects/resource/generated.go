package resource

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBase bounds the base of a generated name, which five random characters follow.
const maxBase = 57

// GeneratedClaim returns the claim of a pod from a template, before it has a name. name is that of the claim in the pod.
func GeneratedClaim(pod *corev1.Pod, name string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
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

// SetReserved sets the reservations that remain of a claim. One that the scheduler has allocated is deallocated with the last of them.
func SetReserved(claim *resourcev1.ResourceClaim, remaining []resourcev1.ResourceClaimConsumerReference) {
	claim.Status.ReservedFor = remaining
	if len(remaining) == 0 && slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		claim.Status.Allocation, claim.Status.Devices = nil, nil
	}
}
