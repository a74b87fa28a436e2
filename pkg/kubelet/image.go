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
	pulls   map[string]failedPull // by image
	volumes map[string]*imageWait // why the image of a volume is missing, by volume
}

// failedPull is the backoff of an image that cannot be resolved.
type failedPull struct {
	backoff
	at      time.Time
	message string
}

// imageWait is why a container waits for its image, and when to resolve the image again.
type imageWait struct {
	state corev1.ContainerStateWaiting
	retry time.Duration
	event string // the text of the Event about the container
}

// wantedImage is an image that a pod needs. path is the field path of its Events: a container's, or "" for the image of a volume.
type wantedImage struct {
	name, path string
	policy     corev1.PullPolicy
}

// resolve returns a container's image and records Events about it. It returns why the container waits if the image cannot
// be resolved.
func (p *podImages) resolve(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string) (images.Image, *imageWait) {
	want := wantedImage{c.Image, path, c.ImagePullPolicy}
	if p.simulated() {
		return p.simulate(ctx, pod, c, want)
	}
	found, err := p.kubelet.host.Images.Resolve(c.Image, c.Command)
	return p.record(ctx, pod, want, found, err)
}

// record records the Events about an image that was found or not. It returns the image, or why the containers that need it wait.
func (p *podImages) record(ctx context.Context, pod *corev1.Pod, want wantedImage, found images.Image, err error) (images.Image, *imageWait) {
	switch {
	case errors.Is(err, images.ErrInvalidName):
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", want.name, err)
		p.event(ctx, pod, want.path, corev1.EventTypeWarning, "InspectFailed", message)
		return images.Image{}, waitForImage("InvalidImageName", message, configRetry)
	case err != nil && want.policy == corev1.PullNever:
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", want.name)
		p.event(ctx, pod, want.path, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return images.Image{}, waitForImage("ErrImageNeverPull", message, configRetry)
	case err != nil:
		return images.Image{}, p.pullFailed(ctx, pod, want, err)
	}
	delete(p.pulls, want.name)
	if found.Note != "" {
		p.event(ctx, pod, want.path, corev1.EventTypeNormal, found.Reason, found.Note)
	}
	p.event(ctx, pod, want.path, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", want.name))
	return found, nil
}

// simulate resolves the image of a simulated container: any image is found, unless a rule of the pod forbids it.
func (p *podImages) simulate(ctx context.Context, pod *corev1.Pod, c *corev1.Container, want wantedImage) (images.Image, *imageWait) {
	if s, ok := p.runtime().(Simulator); ok {
		if err := s.Pull(pod, c); err != nil {
			return images.Image{}, p.pullFailed(ctx, pod, want, err)
		}
		delete(p.pulls, c.Image)
	}
	return images.Image{ID: c.Image}, nil
}

func waitForImage(reason, message string, retry time.Duration) *imageWait {
	return &imageWait{corev1.ContainerStateWaiting{Reason: reason, Message: message}, retry, reason}
}

// pullFailed starts the backoff of an image that cannot be resolved. During the backoff it returns ImagePullBackOff.
func (p *podImages) pullFailed(ctx context.Context, pod *corev1.Pod, want wantedImage, err error) *imageWait {
	now := p.clock().Now()
	last := p.pulls[want.name]
	left := last.until(last.at, now)
	if shown := now.Sub(last.at); left > 0 && shown < pullErrorShown { // a sync for another reason, before the status has shown the error for long enough
		return waitForImage("ErrImagePull", last.message, pullErrorShown-shown)
	}
	if left > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", want.name)
		p.event(ctx, pod, want.path, corev1.EventTypeNormal, "BackOff", message)
		return waitForImage("ImagePullBackOff", message+": ErrImagePull: "+last.message, left)
	}
	put(&p.pulls, want.name, failedPull{backoff: last.next(now, now), at: now, message: err.Error()})
	p.event(ctx, pod, want.path, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", want.name))
	p.event(ctx, pod, want.path, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", want.name, err))
	return waitForImage("ErrImagePull", err.Error(), pullErrorShown)
}

// pullErrorShown is how long the status shows ErrImagePull before ImagePullBackOff.
const pullErrorShown = 2 * time.Second
