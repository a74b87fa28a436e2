package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/resource"
)

// ResourceClaimTemplates are the objects of a simulation from which a Sandbox makes claims.
const ResourceClaimTemplates framework.EventResource = "resourceclaimtemplates.v1.resource.k8s.io"

// giveClaims makes the claims of a pod's templates that it does not have yet, as the cluster's controller does, and names them in its status, which the
// caller may change. Templates that do not exist are left out.
func (b *Sandbox) giveClaims(pod *corev1.Pod) {
	all := SimulatedObjects{b.s.objects}
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		template, known := b.templateOf(pod, c)
		if !known || b.hasClaim(pod, c) {
			continue
		}
		claim := resource.GeneratedClaim(pod, c.Name, template)
		claim.Name = claim.GenerateName + string(pod.UID)
		claim.UID = types.UID(claim.Name)
		if _, ok := all.Get(framework.ResourceClaim, objects.Key{Namespace: claim.Namespace, Name: claim.Name}); !ok { // otherwise it is that of an earlier version of the pod
			all.Put(framework.ResourceClaim, claim)
		}
		pod.Status.ResourceClaimStatuses = append(
			slices.DeleteFunc(slices.Clone(pod.Status.ResourceClaimStatuses), func(s corev1.PodResourceClaimStatus) bool { return s.Name == c.Name }),
			corev1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &claim.Name})
	}
}

// templateOf returns the template of a pod's claim.
func (b *Sandbox) templateOf(pod *corev1.Pod, c *corev1.PodResourceClaim) (*resourcev1.ResourceClaimTemplate, bool) {
	if c.ResourceClaimTemplateName == nil {
		return nil, false
	}
	obj, ok := b.s.objects.get(ResourceClaimTemplates, objects.Key{Namespace: pod.Namespace, Name: *c.ResourceClaimTemplateName})
	if !ok {
		return nil, false
	}
	return obj.(*resourcev1.ResourceClaimTemplate), true
}

// hasClaim reports whether a pod's status names the claim that was made for it from a template, or that it needs none.
func (b *Sandbox) hasClaim(pod *corev1.Pod, c *corev1.PodResourceClaim) bool {
	name, _, err := resourceclaim.Name(pod, c)
	if err != nil || name == nil {
		return err == nil
	}
	claim, err := b.s.devices.claims.Get(pod.Namespace, *name)
	return err == nil && resourceclaim.IsForPod(pod, claim, false) == nil
}

// lacksTemplate returns why a pod lacks a claim, as the controller's event says it; "": its templates exist.
func (b *Sandbox) lacksTemplate(pod *corev1.Pod) string {
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if _, known := b.templateOf(pod, c); c.ResourceClaimTemplateName != nil && !known && !b.hasClaim(pod, c) {
			name := *c.ResourceClaimTemplateName
			return fmt.Sprintf("PodResourceClaim %s: resource claim template %q: %v", c.Name, name, apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), name))
		}
	}
	return ""
}

// freeClaims removes the reservations of a pod that has left its node, as the cluster's controller does: a claim that nothing else uses is deallocated. Those
// that were made for the pod are deleted if it is gone. A claim of its extended resources always is: the pod gets another one on its next node.
func (b *Sandbox) freeClaims(pod *corev1.Pod, gone bool) {
	all := SimulatedObjects{b.s.objects}
	for _, obj := range all.List(framework.ResourceClaim) {
		claim := obj.(*resourcev1.ResourceClaim)
		remaining := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
		if len(remaining) < len(claim.Status.ReservedFor) {
			released := claim.DeepCopy()
			resource.SetReserved(released, remaining)
			all.Put(framework.ResourceClaim, released)
		}
		if metav1.IsControlledBy(claim, pod) && (gone || claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true") {
			all.Delete(framework.ResourceClaim, objects.Key{Namespace: claim.Namespace, Name: claim.Name})
		}
	}
}
