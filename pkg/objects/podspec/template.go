package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PrepareTemplate brings a pod template that a client wrote into the form that is stored.
func PrepareTemplate(t *corev1.PodTemplateSpec) { SyncServiceAccount(&t.Spec) }

// ContainerNames lists the containers for a table.
func ContainerNames(s *corev1.PodSpec) string {
	names := make([]string, len(s.Containers))
	for i := range s.Containers {
		names[i] = s.Containers[i].Name
	}
	return strings.Join(names, ",")
}

// Images lists the containers' images for a table.
func Images(s *corev1.PodSpec) string {
	images := make([]string, len(s.Containers))
	for i := range s.Containers {
		images[i] = s.Containers[i].Image
	}
	return strings.Join(images, ",")
}
