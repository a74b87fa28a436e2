package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

var resourceClaims = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")

// prepareDevices checks that the node can give the pod the devices of its claims. Simulated nodes can; real ones have no drivers, so that a pod
// whose claims have devices does not start. A positive duration requests another attempt after it.
func (w *podWorker) prepareDevices(ctx context.Context, pod *corev1.Pod) time.Duration {
	if w.simulated() {
		return 0
	}
	for _, c := range devicesOf(pod) {
		err := w.prepare(ctx, pod, &c)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return mountRetry
		default:
			w.event(ctx, pod, "", corev1.EventTypeWarning, "FailedPrepareDynamicResources", fmt.Sprintf("Failed to prepare dynamic resources: prepare dynamic resources: %v", err))
			return configRetry
		}
	}
	return 0
}

// devicesOf returns the claims of a pod, that of its extended resources among them.
func devicesOf(pod *corev1.Pod) []corev1.PodResourceClaim {
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		return append(slices.Clone(pod.Spec.ResourceClaims), corev1.PodResourceClaim{ResourceClaimName: &s.ResourceClaimName})
	}
	return pod.Spec.ResourceClaims
}

// hasDevicesFor reports whether the pod has devices of a claim for an extended resource, which the node itself may not have.
func hasDevicesFor(pod *corev1.Pod, name corev1.ResourceName) bool {
	s := pod.Status.ExtendedResourceClaimStatus
	return s != nil && slices.ContainsFunc(s.RequestMappings, func(r corev1.ContainerExtendedResourceRequest) bool { return r.ResourceName == string(name) })
}

// prepare returns why the pod cannot have the devices of a claim.
func (w *podWorker) prepare(ctx context.Context, pod *corev1.Pod, c *corev1.PodResourceClaim) error {
	name, mustOwn, err := resourceclaim.Name(pod, c)
	if err != nil || name == nil {
		return err
	}
	obj, err := w.kubelet.client.Get(ctx, client.In(resourceClaims, objects.Key{Namespace: pod.Namespace, Name: *name}), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("fetch ResourceClaim %s: %w", *name, err)
	}
	claim := obj.(*resourcev1.ResourceClaim)
	if mustOwn {
		if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
			return err
		}
	}
	switch {
	case !resourceclaim.IsReservedForPod(pod, claim, false):
		return fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, claim.Name, claim.UID)
	case claim.Status.Allocation == nil:
		return fmt.Errorf("ResourceClaim %s: not allocated", claim.Name)
	case len(claim.Status.Allocation.Devices.Results) > 0:
		return fmt.Errorf("DRA driver %s is not registered", claim.Status.Allocation.Devices.Results[0].Driver)
	}
	return nil
}
