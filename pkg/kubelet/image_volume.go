package kubelet

import (
	"context"
	"errors"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// resolveVolumes finds the directories of the volumes that show the files of images. As in Kubernetes a missing image does not keep the pod's
// sandbox from starting: the containers that mount it wait, and Events about the pod name the image.
func (l *podLifecycle) resolveVolumes(ctx context.Context, pod *corev1.Pod) {
	if l.simulated() {
		return
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Image == nil {
			continue
		}
		directory, wait := l.images.files(ctx, pod, volume.Image)
		put(&l.images.volumes, volume.Name, wait)
		if wait == nil {
			put(&l.volumes.claimed, volume.Name, directory)
		}
	}
}

// files returns the directory with an image's files and records Events about the pod. It returns why containers with that volume wait if there is
// none.
func (p *podImages) files(ctx context.Context, pod *corev1.Pod, source *corev1.ImageVolumeSource) (string, *imageWait) {
	found, err := p.kubelet.host.Images.Files(source.Reference)
	if errors.Is(err, images.ErrNoFiles) {
		message := "ImageVolumeMountFailed: " + err.Error() // the prefix of such errors of container runtimes
		wait := waitForImage("CreateContainerError", message, configRetry)
		wait.event = message
		return "", wait
	}
	found, wait := p.record(ctx, pod, wantedImage{name: source.Reference, policy: source.PullPolicy}, found, err)
	return found.Root, wait
}

// volumeWait returns why a container waits for the image of one of its volumes, nil if it does not.
func (p *podImages) volumeWait(c *corev1.Container) *imageWait {
	var last *imageWait
	for _, m := range c.VolumeMounts {
		if wait := p.volumes[m.Name]; wait != nil {
			last = wait
		}
	}
	return last
}

func isImage(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.Image != nil
		}
	}
	return false
}

// findSubPath checks that a volume has a file or directory. It follows no link that leads out of the volume.
func findSubPath(volume, sub string) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Stat(sub)
	return err
}
