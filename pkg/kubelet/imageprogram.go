package kubelet

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// withProgram returns a command of a container. Where it names the image's own program, which this machine does not have, the image's
// entrypoint takes its place, unless a volume has the program.
func withProgram(c *corev1.Container, img images.Image, cmd []string) []string {
	if img.Program == "" || len(cmd) == 0 || cmd[0] != img.Program || slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix(img.Program, strings.TrimSuffix(m.MountPath, "/")+"/")
	}) {
		return cmd
	}
	return append(slices.Clone(img.Entrypoint), cmd[1:]...)
}

// execCommand is withProgram for a command that is to run in a running container: of exec, a hook or a probe.
func (k *Kubelet) execCommand(c *corev1.Container, cmd []string) []string {
	img, err := k.host.Images.Resolve(c.Image, cmd)
	if err != nil {
		return cmd // the config of a later start may not have the image any more
	}
	return withProgram(c, img, cmd)
}
