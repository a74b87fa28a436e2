package kubelet

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

// TestChangedImageShowsNoEnd changes the image of a container. Kubernetes' kubelet ends and starts a container in one sync, so that the pod
// stays ready.
func TestChangedImageShowsNoEnd(t *testing.T) {
	r := newRig(t)
	ended, goOn := make(chan struct{}), make(chan struct{})
	r.runtime.exited = func() {
		close(ended)
		<-goOn
	}
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	caches := client.NewCaches(r.api, r.clock)
	var shown []string
	caches.Pods().Subscribe(func(ch client.Change[*corev1.Pod]) {
		if !ch.Deleted() && ch.New.Name == "p" {
			shown = append(shown, summary(ch.New))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan error, 1)
	go func() { watching <- caches.Run(ctx) }()
	if err := caches.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(`{"spec":{"containers":[{"name":"c","image":"minikctl.dev/pause"}]}}`)}
	if _, err := r.api.Patch(ctx, client.Target{Resource: client.Pods, Namespace: "default", Name: "p"}, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	<-ended
	r.pod("other", corev1.PodSpec{}) // the kubelet has seen the end when this pod runs
	r.waitSummary("other", "Running c:running+started+ready")
	close(goOn)
	r.waitSummary("p", "Running c:running<Error=143#1+started+ready")
	stop()
	if err := <-watching; err != nil {
		t.Error(err)
	}
	for _, s := range shown {
		if s != "Running c:running+started+ready" && s != "Running c:running<Error=143#1+started+ready" {
			t.Errorf("the pod was shown as %s", s)
		}
	}
}
