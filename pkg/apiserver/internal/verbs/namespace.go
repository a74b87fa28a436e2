package verbs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// spared reports whether an object must not go although its metadata would allow it: a namespace stays until its content
// is gone, which its own finalizers say.
func spared(obj objects.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	return ok && len(ns.Spec.Finalizers) > 0
}
