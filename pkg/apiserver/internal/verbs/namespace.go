package verbs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// The first delete of a namespace makes it Terminating. The namespace is removed when its spec.finalizers, which only the
// finalize subresource changes, and the finalizers in its metadata are empty.

// hasSpecFinalizers reports whether obj is a namespace with spec.finalizers, which must not be removed.
func hasSpecFinalizers(obj objects.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}

// planNamespace decides about the deletion of a namespace. ok is false if the rules for other objects apply
// (planDeletion).
func (w *write) planNamespace(ns *corev1.Namespace, opts *metav1.DeleteOptions, now time.Time) (d deletion, ok bool) {
	if ns.DeletionTimestamp == nil {
		t := metav1.NewTime(now)
		ns.DeletionTimestamp = &t
		ns.Status.Phase = corev1.NamespaceTerminating
		ns.Finalizers = w.deletionFinalizers(ns, opts)
		if len(ns.Finalizers) == 0 && len(ns.Spec.Finalizers) == 0 {
			return remove, true
		}
		return mark, true
	}
	if len(ns.Spec.Finalizers) > 0 {
		return leave, true
	}
	return remove, false
}
