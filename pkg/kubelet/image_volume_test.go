package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// TestImageVolume: the files of an image that is a folder are a read-only volume, and nothing is made in the folder.
func TestImageVolume(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := images.New(images.Config{Map: map[string]images.Source{"tools": {Folder: folder}, "nginx": {Image: "minikctl.dev/web"}}})
	if err != nil {
		t.Fatal(err)
	}
	host := &Host{}
	host.Images = store
	v := &podVolumes{podScope: &podScope{kubelet: &Kubelet{host: host}}}
	volume := func(name string) corev1.Volume {
		return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: name}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume("tools:1")}}}
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/a"}, {Name: "v", MountPath: "/b", SubPath: "sub"}}}
	if _, err := v.mounts(pod, c, nil, ""); err == nil {
		t.Error("the volume is mounted before it is set up")
	}
	if err := v.setUp(t.Context(), pod, &pod.Spec.Volumes[0]); err != nil {
		t.Fatal(err)
	}
	got, err := v.mounts(pod, c, nil, "")
	want := []Mount{{Host: folder, Container: "/a", ReadOnly: true}, {Host: filepath.Join(folder, "sub"), Container: "/b", ReadOnly: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	c.VolumeMounts[1].SubPath = "missing"
	if _, err := v.mounts(pod, c, nil, ""); err == nil {
		t.Error("a missing subPath is mounted")
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the image has %v, %v", entries, err)
	}
	for name, want := range map[string]string{"nginx": "no files", "no-such": ""} {
		other := volume(name)
		if err := v.setUp(t.Context(), pod, &other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
