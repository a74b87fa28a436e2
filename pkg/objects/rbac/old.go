package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldRoles = []objects.Version[*rbacv1.Role]{
		objects.Removed("rbac.authorization.k8s.io/v1beta1", "Role", func() *rbacv1.Role { return &rbacv1.Role{} },
			func() *rbacv1beta1.Role { return &rbacv1beta1.Role{} }, func() runtime.Object { return &rbacv1beta1.RoleList{} }),
	}
	oldClusterRoles = []objects.Version[*rbacv1.ClusterRole]{
		objects.Removed("rbac.authorization.k8s.io/v1beta1", "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
			func() *rbacv1beta1.ClusterRole { return &rbacv1beta1.ClusterRole{} }, func() runtime.Object { return &rbacv1beta1.ClusterRoleList{} }),
	}
	oldRoleBindings = []objects.Version[*rbacv1.RoleBinding]{
		objects.Removed("rbac.authorization.k8s.io/v1beta1", "RoleBinding", func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
			func() *rbacv1beta1.RoleBinding { return &rbacv1beta1.RoleBinding{} }, func() runtime.Object { return &rbacv1beta1.RoleBindingList{} }),
	}
	oldClusterRoleBindings = []objects.Version[*rbacv1.ClusterRoleBinding]{
		objects.Removed("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding", func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} },
			func() *rbacv1beta1.ClusterRoleBinding { return &rbacv1beta1.ClusterRoleBinding{} }, func() runtime.Object { return &rbacv1beta1.ClusterRoleBindingList{} }),
	}
)
