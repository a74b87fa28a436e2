package resource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
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

func TestNewClaim(t *testing.T) {
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r"}}}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
	c := newClaim(pod, "gpu", template)
	if c.Annotations["a"] != "1" || c.Annotations["resource.kubernetes.io/pod-claim-name"] != "gpu" || c.Labels["l"] != "1" || c.Spec.Devices.Requests[0].Name != "r" ||
		!metav1.IsControlledBy(c, pod) || c.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("got %+v", c)
	}
	if len(template.Spec.Annotations) != 1 {
		t.Error("the template was changed")
	}
}

func TestIsDone(t *testing.T) {
	deleted := &metav1.Time{}
	for _, tt := range []struct {
		name  string
		phase corev1.PodPhase
		del   *metav1.Time
		node  string
		want  bool
	}{
		{"pending", corev1.PodPending, nil, "", false},
		{"running", corev1.PodRunning, nil, "n", false},
		{"terminating", corev1.PodRunning, deleted, "n", false},
		{"deleted before it was scheduled", corev1.PodPending, deleted, "", true},
		{"succeeded", corev1.PodSucceeded, nil, "n", true},
		{"failed", corev1.PodFailed, nil, "n", true},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: tt.del}, Spec: corev1.PodSpec{NodeName: tt.node}, Status: corev1.PodStatus{Phase: tt.phase}}
		if got := isDone(p); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestMadeClaims(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"}}
	m := newMadeClaims()
	m.add(pod, "gpu", "web-gpu-1")
	m.observe(pod)
	if got := m.name(pod, "gpu"); got != "web-gpu-1" {
		t.Errorf("got %q", got)
	}
	next := pod.DeepCopy()
	next.UID = "v"
	if got := m.name(next, "gpu"); got != "" {
		t.Errorf("the next pod of the name: got %q", got)
	}
	m.add(next, "gpu", "web-gpu-0")
	if got := m.name(next, "gpu"); got != "web-gpu-0" {
		t.Errorf("a claim of the next pod of the name: got %q", got)
	}
	name := "web-gpu-1"
	m.add(pod, "gpu", name)
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	m.observe(pod)
	if got := m.name(pod, "gpu"); got != "" || len(m.byPod) > 0 {
		t.Errorf("once the status has it: got %q, %v", got, m.byPod)
	}
	m.add(pod, "gpu", "web-gpu-2")
	m.forget(controller.KeyOf(pod))
	if len(m.byPod) > 0 {
		t.Error("a deleted pod is remembered")
	}
}

func TestReferences(t *testing.T) {
	own, template, made := "own", "template", "made"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimName: &own}, {Name: "b", ResourceClaimTemplateName: &template},
	}}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: &made}, {Name: "c"}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	if got := strings.Join(claimsOf(pod), " "); got != "ns/own ns/made ns/extended" {
		t.Errorf("claims: got %s", got)
	}
	if got := strings.Join(templatesOf(pod), " "); got != "ns/template" {
		t.Errorf("templates: got %s", got)
	}
}
