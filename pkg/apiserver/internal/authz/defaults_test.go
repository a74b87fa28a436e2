package authz

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// TestDefaults checks that the default objects and the compiled rules grant the same rights.
func TestDefaults(t *testing.T) {
	roles, bindings := map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.ClusterRoleBinding{}
	seen := map[string]bool{}
	for _, obj := range Defaults(feature.Gates{}) {
		id := fmt.Sprintf("%T %s/%s", obj, obj.GetNamespace(), obj.GetName())
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if obj.GetLabels()[bootstrappingLabel] != rbacDefaults || obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("%s is not marked", id)
		}
		switch o := obj.(type) {
		case *rbacv1.ClusterRole:
			roles[o.Name] = o
		case *rbacv1.ClusterRoleBinding:
			bindings[o.Name] = o
		}
	}
	for name, b := range bindings {
		if roles[b.RoleRef.Name] == nil || (len(b.Subjects) == 0) != (name == "system:node") {
			t.Errorf("%s binds %v to %v", name, b.RoleRef, b.Subjects)
		}
	}
	for _, name := range []string{"cluster-admin", "admin", "edit", "view", "system:node", "system:discovery", "system:auth-delegator", "system:certificates.k8s.io:legacy-unknown-approver"} {
		if roles[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if roles["view"].Labels[aggregateTo+"edit"] != "true" || roles["edit"].AggregationRule == nil || roles["system:node"].AggregationRule != nil {
		t.Error("the roles for people are not made of each other")
	}
	if bindings["view"] != nil {
		t.Error("a default binding refers to a role without subjects")
	}
}
