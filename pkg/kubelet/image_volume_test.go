package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// withImages lets a rig's host have other images.
func withImages(t *testing.T, sources map[string]images.Source) func(*HostConfig, *Config) {
	store, err := images.New(images.Config{Map: sources})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *HostConfig, _ *Config) { c.Images = store }
}

func imageVolume(name, reference string, policy corev1.PullPolicy) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: policy}}}
}

// TestImageVolume: the files of an image that is a directory are a read-only volume, and nothing is made in the directory.
func TestImageVolume(t *testing.T) {
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, withImages(t, map[string]images.Source{"tools": {Root: directory}, "nginx": {Image: "minikctl.dev/web"}}))
	volumes := []corev1.Volume{imageVolume("v", "tools:1", corev1.PullNever)}
	pod := r.pod("p", corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{
		{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/a"}, {Name: "v", MountPath: "/b", SubPath: "sub"}}},
		{Name: "d", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "missing"}}},
	}})
	r.waitSummary("p", "Pending c:running+started+ready d:CreateContainerConfigError")
	spec, _ := r.runtime.spec(pod.UID, "c")
	want := []Mount{{Host: directory, Container: "/a", ReadOnly: true}, {Host: filepath.Join(directory, "sub"), Container: "/b", ReadOnly: true}}
	if got := spec.Mounts[:min(2, len(spec.Mounts))]; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.event("p", "Pulled", `Container image "tools:1" already present on machine and can be accessed by the pod`)
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 1 {
		t.Errorf("the image has %v, %v", entries, err)
	}
}

// TestMissingImageVolume: containers that mount the files of an image wait for it as for their own, and the other containers run. The Events about
// the image are the pod's.
func TestMissingImageVolume(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "later")
	r := newRig(t, withImages(t, map[string]images.Source{"nginx": {Image: "minikctl.dev/web"}}))
	mounting := func(name, volume string) corev1.Container {
		return corev1.Container{Name: name, VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/v"}}}
	}
	r.pod("p", corev1.PodSpec{
		Volumes: []corev1.Volume{
			imageVolume("later", images.DirPrefix+directory, corev1.PullIfNotPresent), imageVolume("never", "tools", corev1.PullNever),
			imageVolume("bad", "No:Image", corev1.PullAlways), imageVolume("program", "nginx", corev1.PullAlways),
		},
		Containers: []corev1.Container{{Name: "a"}, mounting("b", "later"), mounting("c", "never"), mounting("d", "bad"), mounting("e", "program")},
	})
	const others = " c:ErrImageNeverPull d:InvalidImageName e:CreateContainerError"
	pod := r.waitSummary("p", "Pending a:running+started+ready b:ErrImagePull"+others)
	for i, want := range []string{
		1: directory, `Container image "tools" is not present with pull policy of Never`, `Failed to apply default image tag "No:Image": `,
		`ImageVolumeMountFailed: image has no files of its own: "nginx" runs a program of this machine`,
	} {
		if w := pod.Status.ContainerStatuses[i].State.Waiting; i > 0 && !strings.Contains(w.Message, want) {
			t.Errorf("container %d waits with the message %q, want %q", i, w.Message, want)
		}
	}
	reference := `"` + images.DirPrefix + directory + `"`
	for _, want := range [][2]string{
		{"Pulling", "Pulling image " + reference}, {"Failed", "Failed to pull image " + reference + ": …"}, {"Failed", "Error: ErrImagePull"},
		{"ErrImageNeverPull", `Container image "tools" is not present with pull policy of Never`}, {"Failed", "Error: ErrImageNeverPull"},
		{"InspectFailed", `Failed to apply default image tag "No:Image": …`}, {"Failed", "Error: InvalidImageName"},
		{"Failed", "Error: ImageVolumeMountFailed: image has no files of its own: …"},
	} {
		r.event("p", want[0], want[1])
	}
	if missing := r.missingEvent("p", "FailedMount", "…"); missing == "" {
		t.Error("there is an Event FailedMount")
	}
	r.until("the back-off", func() string {
		r.advance(time.Second)
		return r.missingEvent("p", "BackOff", "Back-off pulling image "+reference)
	})
	r.waitSummary("p", "Pending a:running+started+ready b:ImagePullBackOff"+others)
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	r.waitSummaryAdvancing("p", "Pending a:running+started+ready b:running+started+ready"+others)
}
