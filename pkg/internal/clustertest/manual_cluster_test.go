package clustertest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// manual is a whole cluster with simulated nodes in this process, on a manual clock.
type manual = virtual.Cluster

// startManual starts a cluster with the named nodes that ends with the test, and waits until it has settled.
func startManual(t *testing.T, nodes ...string) *manual {
	t.Helper()
	return virtual.Start(t, virtual.Config{Nodes: nodes})
}

// apply creates an object from YAML in the namespace default.
func apply[T objects.Object](c *manual, resource schema.GroupVersionResource, obj T, text string) T {
	c.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		c.Fatal(err)
	}
	out, err := c.Create(c.Context(), client.Target{Resource: resource, Namespace: "default"}, obj, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return out.(T)
}

// list returns the objects of a namespace, "" for all.
func list[T objects.Object](c *manual, resource schema.GroupVersionResource, namespace string) []T {
	c.Helper()
	got, err := c.List(c.Context(), client.Target{Resource: resource, Namespace: namespace}, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var out []T
	for _, obj := range got.Items {
		out = append(out, obj.(T))
	}
	return out
}

// get returns an object of the namespace default, or of none.
func get[T objects.Object](c *manual, resource schema.GroupVersionResource, namespace, name string) T {
	c.Helper()
	got, err := c.Get(c.Context(), client.Target{Resource: resource, Namespace: namespace, Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return got.(T)
}
