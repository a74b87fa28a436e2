package kubelet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestDeviceClaims: a pod waits until its claim is there and reserved for it. With devices it does not start, since no driver gives them to it;
// without any it does.
func TestDeviceClaims(t *testing.T) {
	r := newRig(t)
	claims := client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: "default"}
	const reason, failed = "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: prepare dynamic resources: "
	for _, devices := range []int{0, 1} {
		name := fmt.Sprintf("with-%d", devices)
		pod := r.pod(name, corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}})
		r.event(name, reason, failed+fmt.Sprintf("fetch ResourceClaim %s: resourceclaims.resource.k8s.io %q not found", name, name))
		r.waitSummary(name, "Pending c:ContainerCreating")
		claim := r.create(claims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}},
		}}).(*resourcev1.ResourceClaim)
		r.eventAdvancing(name, reason, failed+fmt.Sprintf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", name, pod.UID, name, claim.UID))
		claim = claim.DeepCopy()
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		for range devices {
			claim.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "d"}}
		}
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
		at := client.In(claims.Resource, objects.Key{Namespace: "default", Name: name}).Sub("status")
		if _, err := r.api.Update(t.Context(), at, claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if devices == 0 {
			r.waitSummaryAdvancing(name, "Running c:running+started+ready")
			continue
		}
		r.eventAdvancing(name, reason, failed+"DRA driver gpu.example.com is not registered")
		r.waitSummary(name, "Pending c:ContainerCreating")
	}
}
