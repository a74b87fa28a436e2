package connect

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// containerOf returns the container of a request: the named one, or the only one of the pod.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	main, inits, ephemeral := containerNames(pod)
	if name != "" {
		for _, list := range [][]string{main, inits, ephemeral} {
			for _, n := range list {
				if n == name {
					return name, nil
				}
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	if len(main) == 1 {
		return main[0], nil
	}
	text := "a container name must be specified for pod " + pod.Name
	if len(main) > 0 {
		text += fmt.Sprintf(", choose one of: [%s]", strings.Join(main, " "))
		if len(inits) > 0 {
			text += fmt.Sprintf(" or one of the init containers: [%s]", strings.Join(inits, " "))
		}
		if len(ephemeral) > 0 {
			text += fmt.Sprintf(" or one of the ephemeral containers: [%s]", strings.Join(ephemeral, " "))
		}
	}
	return "", apierrors.NewBadRequest(text)
}

func containerNames(pod *corev1.Pod) (main, inits, ephemeral []string) {
	for i := range pod.Spec.Containers {
		main = append(main, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		inits = append(inits, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, pod.Spec.EphemeralContainers[i].Name)
	}
	return main, inits, ephemeral
}
