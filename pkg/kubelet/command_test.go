package kubelet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

func TestCommand(t *testing.T) {
	img := images.Image{Entrypoint: []string{"/bin/cart", "-x"}, Cmd: []string{"serve"}}
	mapped := img
	mapped.Program = "/opt/cart"
	volume := []corev1.VolumeMount{{MountPath: "/opt/"}}
	for _, c := range []struct {
		container corev1.Container
		image     images.Image
		want      string
	}{
		{corev1.Container{}, img, "/bin/cart -x serve"},
		{corev1.Container{Args: []string{"-y"}}, img, "/bin/cart -x -y"},
		{corev1.Container{Command: []string{"/opt/cart"}, Args: []string{"-y"}}, img, "/opt/cart -y"},
		{corev1.Container{Command: []string{"/opt/cart", "a"}, Args: []string{"-y"}}, mapped, "/bin/cart -x a -y"},
		{corev1.Container{Command: []string{"/opt/cart"}, VolumeMounts: volume}, mapped, "/opt/cart"},
		{corev1.Container{Command: []string{"/opt/cart"}, VolumeMounts: []corev1.VolumeMount{{MountPath: "/op"}}}, mapped, "/bin/cart -x"},
	} {
		if got := strings.Join(command(&c.container, c.image, newEnvironment()), " "); got != c.want {
			t.Errorf("%q %q: got %q, want %q", c.container.Command, c.container.Args, got, c.want)
		}
	}
}
