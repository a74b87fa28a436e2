package verbs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// A namespace is deleted in its own way: the first delete marks it and makes it Terminating, its spec.finalizers (not
// only those of its metadata) have to go, through the finalize subresource, and then it may.

// spared reports whether an object must not go although its metadata would allow it.
func spared(obj objects.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}

// planNamespace decides what a delete does to a namespace. decided is false when it is to be deleted like anything else.
func (w *write) planNamespace(ns *corev1.Namespace, opts *metav1.DeleteOptions, now time.Time) (f fate, decided bool) {
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
