package resource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGeneratedBase(t *testing.T) {
	long := strings.Repeat("p", 60)
	for _, tt := range []struct{ pod, claim, want string }{
		{"web", "gpu", "web-gpu-"},
		{strings.Repeat("p", 51), "gpus", strings.Repeat("p", 51) + "-gpus-"},
		{strings.Repeat("p", 52), "gpus", strings.Repeat("p", 51) + "-gpu"},
		{long, strings.Repeat("c", 20), strings.Repeat("p", 41) + "-" + strings.Repeat("c", 13)},
	} {
		if got := generatedBase(tt.pod, tt.claim); got != tt.want {
			t.Errorf("%s, %s: got %s (%d), want %s", tt.pod, tt.claim, got, len(got), tt.want)
		}
	}
}

func TestGeneratedClaim(t *testing.T) {
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r"}}}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
	c := GeneratedClaim(pod, "gpu", template)
	if c.Annotations["a"] != "1" || c.Annotations["resource.kubernetes.io/pod-claim-name"] != "gpu" || c.Labels["l"] != "1" || c.Spec.Devices.Requests[0].Name != "r" ||
		!metav1.IsControlledBy(c, pod) || c.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("got %+v", c)
	}
	if len(template.Spec.Annotations) != 1 {
		t.Error("the template was changed")
	}
}

func TestSetReserved(t *testing.T) {
	allocated := func(finalizers ...string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers}}
		c.Status.Allocation, c.Status.Devices = &resourcev1.AllocationResult{}, []resourcev1.AllocatedDeviceStatus{{Device: "d"}}
		return c
	}
	one := []resourcev1.ResourceClaimConsumerReference{{Name: "p"}}
	c := allocated(resourcev1.Finalizer)
	if SetReserved(c, one); len(c.Status.ReservedFor) != 1 || c.Status.Allocation == nil || c.Status.Devices == nil {
		t.Errorf("with a reservation: %+v", c.Status)
	}
	if SetReserved(c, nil); len(c.Status.ReservedFor) != 0 || c.Status.Allocation != nil || c.Status.Devices != nil {
		t.Errorf("without one: %+v", c.Status)
	}
	c = allocated()
	if SetReserved(c, nil); c.Status.Allocation == nil {
		t.Error("an allocation that is not the scheduler's is gone")
	}
}
