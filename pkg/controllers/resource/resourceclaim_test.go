package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

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

// writes is a client that keeps no object: the watches of its caches never deliver what was written.
type writes struct {
	client.Client
	created int
	refused error // of the first Patch
}

func (w *writes) Create(_ context.Context, _ client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	w.created++
	claim := obj.(*resourcev1.ResourceClaim).DeepCopy()
	claim.Name, claim.ResourceVersion = fmt.Sprint(claim.GenerateName, w.created), "2"
	return claim, nil
}

func (w *writes) Patch(_ context.Context, _ client.Target, p client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	if err := w.refused; err != nil {
		w.refused = nil
		return nil, err
	}
	pod := webPod()
	pod.ResourceVersion = "3"
	return pod, json.Unmarshal(p.Data, pod)
}

func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u", ResourceVersion: "1"},
		Spec:       corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}},
	}
}

// TestClaimsBeforeTheWatch makes one claim for a pod while the watches are behind, also if the pod's status could not be written.
func TestClaimsBeforeTheWatch(t *testing.T) {
	w := &writes{refused: errors.New("refused")}
	env := controller.Env{Client: w, Caches: client.NewCaches(nil, clock.Real())}
	loop := PodResourceClaim(env)
	env.Caches.Pods().Put(webPod())
	client.CacheOf[*resourcev1.ResourceClaimTemplate](env.Caches, resourceClaimTemplates).Put(&resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", UID: "t", ResourceVersion: "1"},
	})
	key := objects.Key{Namespace: "ns", Name: "web"}
	if _, err := loop.Reconcile(t.Context(), key); err == nil {
		t.Error("the refused write of the status is no error")
	}
	for range 2 {
		if _, err := loop.Reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	pod, _ := env.Caches.Pods().Get(key)
	if got := claimsOf(pod); w.created != 1 || len(got) != 1 || got[0] != "ns/web-gpu-1" {
		t.Errorf("made %d claims, the pod has %v", w.created, got)
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
