package podref

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// PodGroup returns the PodGroup that a pod belongs to, and whether there is one.
func PodGroup(pod *corev1.Pod) (objects.Key, bool) {
	g := pod.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil {
		return objects.Key{}, false
	}
	return objects.Key{Namespace: pod.Namespace, Name: *g.PodGroupName}, true
}
