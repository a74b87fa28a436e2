package volume

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// Bind returns copies of a volume and a claim that are bound to one another.
func Bind(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	v, claim = v.DeepCopy(), claim.DeepCopy()
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	v.Status.Phase = corev1.VolumeBound
	claim.Spec.VolumeName, claim.Status.Phase = v.Name, corev1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	return v, claim
}
