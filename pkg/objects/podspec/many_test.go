package podspec

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// TestManyItemsTakeLinearTime validates specs with 100,000 elements in one list. The number of warnings is bounded; `make measure` also
// bounds the time, which must not grow with the square of the elements.
func TestManyItemsTakeLinearTime(t *testing.T) {
	const many, maxTime = 100_000, 20 * time.Second
	container := func(n int) corev1.Container {
		return corev1.Container{Name: fmt.Sprintf("c%d", n), Image: "x"}
	}
	for name, change := range map[string]func(s *corev1.PodSpec, c *corev1.Container, n int){
		"containers": func(s *corev1.PodSpec, _ *corev1.Container, n int) { s.Containers = append(s.Containers, container(n)) },
		"init containers": func(s *corev1.PodSpec, _ *corev1.Container, n int) {
			s.InitContainers = append(s.InitContainers, container(n))
		},
		"equal ports": func(_ *corev1.PodSpec, c *corev1.Container, _ int) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80})
		},
		"named ports": func(_ *corev1.PodSpec, c *corev1.Container, n int) {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: fmt.Sprintf("p%d", n), ContainerPort: 80, Protocol: corev1.ProtocolTCP})
		},
		"variables": func(_ *corev1.PodSpec, c *corev1.Container, n int) {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", n/2)})
		},
		"mounts": func(s *corev1.PodSpec, c *corev1.Container, n int) {
			v := corev1.Volume{Name: fmt.Sprintf("v%d", n)}
			s.Volumes = append(s.Volumes, v)
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
		},
		"host aliases": func(s *corev1.PodSpec, _ *corev1.Container, n int) {
			s.HostAliases = append(s.HostAliases, corev1.HostAlias{IP: fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)})
		},
		"claims that are not there": func(s *corev1.PodSpec, c *corev1.Container, n int) {
			s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("c%d", n), ResourceClaimName: new("x")})
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: fmt.Sprintf("d%d", n)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := &corev1.PodSpec{}, container(-1)
			for n := range many {
				change(s, &c, n)
			}
			s.Containers = append(s.Containers, c)
			began := time.Now()
			Default(s)
			Validate(s, Options{Pod: true, Name: "p"}, nil)
			warnings := Warnings(s, nil, nil)
			if took := time.Since(began); measured.Enabled() && took > maxTime || len(warnings) > maxWarnings {
				t.Errorf("%s, %d warnings", took, len(warnings))
			}
		})
	}
}
