package virtual_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
)

// TestRestartedKubeletsKeepNodesReady: kubelets renew their Leases after a restart.
func TestRestartedKubeletsKeepNodesReady(t *testing.T) {
	c := virtual.Start(t, virtual.Config{Nodes: []string{"a", "b"}})
	for range 3 {
		c.Advance(7 * time.Second)
		c.RestartKubelets()
	}
	c.Advance(5 * time.Minute)
	for _, name := range []string{"a", "b"} {
		got, err := c.Get(t.Context(), client.Target{Resource: client.Nodes, Name: name}, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, cond := range got.(*corev1.Node).Status.Conditions {
			if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
				t.Errorf("node %s: %+v", name, cond)
			}
		}
	}
}
