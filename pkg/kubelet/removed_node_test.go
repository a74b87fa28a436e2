package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// TestNodeBeingRemoved checks that the kubelet of a leaving node runs pods until they end, keeps an existing Node up to date, and
// creates none: neither at its start nor after the Node was deleted.
func TestNodeBeingRemoved(t *testing.T) {
	leaving := func(_ *HostConfig, c *Config) { c.Node.BeingRemoved = true }
	r := newRig(t, leaving)
	absent := func(when string) {
		t.Helper()
		if _, err := r.api.Get(t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: get the Node: %v", when, err)
		}
	}
	absent("after the start")
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	if err := r.kubelet.renew(t.Context()); err != nil {
		t.Errorf("renew without a Node: %v", err)
	}
	r.stop()
	r.create(client.Target{Resource: client.Nodes}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	r.start(leaving)
	got, err := r.api.Get(t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node, ok := got.(*corev1.Node); !ok || len(node.Status.Conditions) == 0 {
		t.Error("the existing Node got no status")
	}
	if _, err := r.api.Delete(t.Context(), r.kubelet.nodeTarget(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.kubelet.repost(t.Context()); err != nil {
		t.Errorf("report the status of a deleted Node: %v", err)
	}
	absent("after the delete")
}
