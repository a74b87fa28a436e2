package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/images"
)

// pull is what is remembered of an image that could not be had.
type pull struct {
	backoff
	failed time.Time
	text   string
}

// image finds a container's image and says so in Events. ok is false when it cannot be had now; then the container waits,
// and again says how long.
func (w *worker) image(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string) (img images.Image, again time.Duration, ok bool) {
	if w.Tier.Simulated {
		return images.Image{ID: c.Image}, 0, true
	}
	found, err := w.host.Images.Resolve(c.Image, c.Command)
	switch {
	case errors.Is(err, images.ErrInvalidName):
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)
		w.event(ctx, pod, path, corev1.EventTypeWarning, "InspectFailed", message)
		return w.noImage(ctx, pod, c, path, "InvalidImageName", message, retryConfig)
	case err != nil && c.ImagePullPolicy == corev1.PullNever:
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image)
		w.event(ctx, pod, path, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return w.noImage(ctx, pod, c, path, "ErrImageNeverPull", message, retryConfig)
	case err != nil:
		return w.pullFailed(ctx, pod, c, path, err)
	}
	w.mu.Lock()
	delete(w.pulls, c.Image)
	w.mu.Unlock()
	if found.Note != "" {
		w.event(ctx, pod, path, corev1.EventTypeNormal, found.Reason, found.Note)
	}
	w.event(ctx, pod, path, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image))
	return found, 0, true
}

// noImage lets the container wait for its image.
func (w *worker) noImage(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path, reason, message string, again time.Duration) (images.Image, time.Duration, bool) {
	w.setWhy(c.Name, corev1.ContainerStateWaiting{Reason: reason, Message: message})
	w.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", "Error: "+reason)
	return images.Image{}, again, false
}

// pullFailed says that an image cannot be had, or while its back-off lasts, that it is not tried.
func (w *worker) pullFailed(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string, err error) (images.Image, time.Duration, bool) {
	now := w.host.Clock.Now()
	w.mu.Lock()
	p := w.pulls[c.Image]
	left := p.until(p.failed, now)
	w.mu.Unlock()
	if left > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		w.event(ctx, pod, path, corev1.EventTypeNormal, "BackOff", message)
		return w.noImage(ctx, pod, c, path, "ImagePullBackOff", message+": ErrImagePull: "+p.text, left)
	}
	p = pull{backoff: p.next(now, now), failed: now, text: err.Error()}
	w.mu.Lock()
	w.pulls[c.Image] = p
	w.mu.Unlock()
	w.event(ctx, pod, path, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	w.event(ctx, pod, path, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
	// The next look finds the back-off and shows it, as kubelets do.
	return w.noImage(ctx, pod, c, path, "ErrImagePull", err.Error(), backoffShown)
}

// backoffShown is how long a failed pull shows itself before its back-off does.
const backoffShown = 2 * time.Second
