package apps

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// retentionPolicy returns what happens to a set's claims when the set is deleted or scaled down. Any value but Delete is Retain.
func retentionPolicy(set *appsv1.StatefulSet) (deleteWithSet, deleteScaled bool) {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	if p == nil {
		return false, false
	}
	const del, keep = appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	known := (p.WhenDeleted == del || p.WhenDeleted == keep) && (p.WhenScaled == del || p.WhenScaled == keep)
	return known && p.WhenDeleted == del, known && p.WhenScaled == del
}

// claimOwners returns which of the set and the pod a claim must have as its controller. The garbage collector deletes the
// claim after the last one of them: the set owns the claim until the pod is scaled down, and then the pod does.
func claimOwners(set *appsv1.StatefulSet, p *corev1.Pod) (ownedBySet, ownedByPod bool) {
	deleteWithSet, deleteScaled := retentionPolicy(set)
	scaledDown := !inOrdinalRange(set, p)
	ownedByPod = deleteScaled && scaledDown
	return deleteWithSet && !ownedByPod, ownedByPod
}

// refersTo reports whether a reference has the kind and the name of an object, whatever its UID.
func refersTo(ref metav1.OwnerReference, obj metav1.Object, kind schema.GroupVersionKind) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == obj.GetName()
}

// refersToEarlier reports whether the first reference with an object's kind and name has another UID: that of an earlier object.
func refersToEarlier(claim *corev1.PersistentVolumeClaim, obj metav1.Object, kind schema.GroupVersionKind) bool {
	for _, ref := range claim.OwnerReferences {
		if refersTo(ref, obj, kind) {
			return ref.UID != obj.GetUID()
		}
	}
	return false
}

func ownedBy(claim *corev1.PersistentVolumeClaim, obj metav1.Object) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() })
}

func isController(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// hasForeignController reports whether something other than the set and the pod controls a claim, or an earlier set or pod of
// that name owns it. With a policy that retains all claims this does not matter.
func hasForeignController(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, p *corev1.Pod) bool {
	if deleteWithSet, deleteScaled := retentionPolicy(set); !deleteWithSet && !deleteScaled {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case refersTo(ref, set, statefulSetKind):
			return ref.UID != set.UID
		case refersTo(ref, p, podKind):
			return ref.UID != p.UID
		}
		return isController(ref)
	})
}

// retentionMatches reports whether a claim has the owner references that the retention policy requires. A claim with an
// earlier set or pod as owner matches: the garbage collector decides about it.
func retentionMatches(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, p *corev1.Pod) bool {
	switch {
	case refersToEarlier(claim, set, statefulSetKind) || refersToEarlier(claim, p, podKind):
		return true
	case hasForeignController(claim, set, p):
		return !ownedBy(claim, set) && !ownedBy(claim, p)
	}
	notController := slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return (ref.UID == set.UID || ref.UID == p.UID) && !isController(ref)
	})
	bySet, byPod := claimOwners(set, p)
	return !notController && bySet == ownedBy(claim, set) && byPod == ownedBy(claim, p)
}

// withRetention returns a copy of a claim with the owner references that the retention policy requires. A claim with a
// foreign controller loses the references to the set and the pod.
func withRetention(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, p *corev1.Pod) *corev1.PersistentVolumeClaim {
	next := claim.DeepCopy()
	foreign := hasForeignController(claim, set, p)
	next.OwnerReferences = slices.DeleteFunc(next.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return refersTo(ref, set, statefulSetKind) || refersTo(ref, p, podKind)
	})
	if foreign {
		return next
	}
	bySet, byPod := claimOwners(set, p)
	if bySet && !ownedBy(next, set) {
		next.OwnerReferences = append(next.OwnerReferences, *metav1.NewControllerRef(set, statefulSetKind))
	}
	if byPod && !ownedBy(next, p) {
		next.OwnerReferences = append(next.OwnerReferences, *metav1.NewControllerRef(p, podKind))
	}
	return next
}

// hasStaleClaim reports whether a claim of a pod to create still has an earlier pod of that name as owner, so that it is about
// to be deleted. claim returns an existing claim.
func hasStaleClaim(set *appsv1.StatefulSet, p *corev1.Pod, claim func(name string) *corev1.PersistentVolumeClaim) bool {
	if _, deleteScaled := retentionPolicy(set); !deleteScaled {
		return false // claims are used again
	}
	for _, t := range set.Spec.VolumeClaimTemplates {
		if c := claim(claimName(set, t.Name, ordinalOf(p))); c != nil && refersToEarlier(c, p, podKind) {
			return true
		}
	}
	return false
}
