package virtual_test

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
)

// TestControllersHaveRightsOfTheirAccounts: a controller can do what the role of its service account permits, and nothing without its binding.
func TestControllersHaveRightsOfTheirAccounts(t *testing.T) {
	c := virtual.Start(t, virtual.Config{Nodes: []string{"a"}})
	binding := client.Target{Resource: rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), Name: "system:controller:replicaset-controller"}
	old := get[*rbacv1.ClusterRoleBinding](c, binding)
	if _, err := c.Delete(t.Context(), binding, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	createDeployment(c, 2)
	c.Advance(time.Minute)
	count := func() int {
		l, err := c.List(t.Context(), client.Target{Resource: client.Pods, Namespace: metav1.NamespaceDefault}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Items)
	}
	if got := count(); got != 0 {
		t.Errorf("%d pods without the binding", got)
	}
	again := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: old.Name}, Subjects: old.Subjects, RoleRef: old.RoleRef}
	if _, err := c.Create(t.Context(), client.Target{Resource: binding.Resource}, again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if c.Advance(5 * time.Minute); count() != 2 {
		t.Errorf("%d pods with the binding", count())
	}
}
