package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// podImages resolves the images of a pod's containers. It is used by sync alone.
type podImages struct {
	*podScope
	pulls map[string]failedPull // by image
}

// failedPull is the back-off of an image that cannot be resolved.
type failedPull struct {
	backoff
	at      time.Time
	message string
}

// imageWait is why a container waits for its image, and when to resolve the image again.
type imageWait struct {
	state corev1.ContainerStateWaiting
	retry time.Duration
}

// resolve returns a container's image and records Events about it. It returns why the container waits if the image cannot
// be resolved.
func (p *podImages) resolve(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string) (images.Image, *imageWait) {
	if p.simulated() {
		return p.simulate(ctx, pod, c, path)
	}
	found, err := p.kubelet.host.Images.Resolve(c.Image, c.Command)
	switch {
	case errors.Is(err, images.ErrInvalidName):
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)
		p.event(ctx, pod, path, corev1.EventTypeWarning, "InspectFailed", message)
		return images.Image{}, waitForImage("InvalidImageName", message, configRetry)
	case err != nil && c.ImagePullPolicy == corev1.PullNever:
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		p.event(ctx, pod, path, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return images.Image{}, waitForImage("ErrImageNeverPull", message, configRetry)
	case err != nil:
		return images.Image{}, p.pullFailed(ctx, pod, c, path, err)
	}
	delete(p.pulls, c.Image)
	if found.Note != "" {
		p.event(ctx, pod, path, corev1.EventTypeNormal, found.Reason, found.Note)
	}
	p.event(ctx, pod, path, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
	return found, nil
}

// simulate resolves the image of a simulated container: any image is found, unless a rule of the pod forbids it.
func (p *podImages) simulate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string) (images.Image, *imageWait) {
	if s, ok := p.runtime().(Simulator); ok {
		if err := s.Pull(pod, c); err != nil {
			return images.Image{}, p.pullFailed(ctx, pod, c, path, err)
		}
		delete(p.pulls, c.Image)
	}
	return images.Image{ID: c.Image}, nil
}

func waitForImage(reason, message string, retry time.Duration) *imageWait {
	return &imageWait{corev1.ContainerStateWaiting{Reason: reason, Message: message}, retry}
}

// pullFailed starts the back-off of an image that cannot be resolved. During the back-off it returns ImagePullBackOff.
func (p *podImages) pullFailed(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string, err error) *imageWait {
	now := p.clock().Now()
	last := p.pulls[c.Image]
	left := last.until(last.at, now)
	if shown := now.Sub(last.at); left > 0 && shown < pullErrorShown { // another container has caused the sync
		return waitForImage("ErrImagePull", last.message, pullErrorShown-shown)
	}
	if left > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		p.event(ctx, pod, path, corev1.EventTypeNormal, "BackOff", message)
		return waitForImage("ImagePullBackOff", message+": ErrImagePull: "+last.message, left)
	}
	put(&p.pulls, c.Image, failedPull{backoff: last.next(now, now), at: now, message: err.Error()})
	p.event(ctx, pod, path, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	p.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
	return waitForImage("ErrImagePull", err.Error(), pullErrorShown)
}

// pullErrorShown is how long the status shows ErrImagePull before ImagePullBackOff.
const pullErrorShown = 2 * time.Second
