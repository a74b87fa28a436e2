package kubelet

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// setUpImage finds the folder of a volume that shows the files of an image.
func (v *podVolumes) setUpImage(volume *corev1.Volume) error {
	image, err := v.kubelet.host.Images.Resolve(volume.Image.Reference, nil)
	if err != nil {
		return err
	}
	if image.Root == "" {
		return fmt.Errorf("image %q has no files of its own: it runs programs of this machine", volume.Image.Reference)
	}
	put(&v.claimed, volume.Name, image.Root)
	return nil
}

func isImage(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.Image != nil
		}
	}
	return false
}

// findSubPath checks that a volume has a file or folder. It follows no link that leads out of the volume.
func findSubPath(volume, sub string) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Stat(sub)
	return err
}
