package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// The labels and annotations of default roles and bindings.
const (
	bootstrappingLabel = "kubernetes.io/bootstrapping"
	rbacDefaults       = "rbac-defaults"
	aggregateTo        = "rbac.authorization.k8s.io/aggregate-to-"
)

// aggregated maps a default role to the user-facing role that aggregates it.
var aggregated = map[string]string{
	"system:aggregate-to-admin": "admin", "edit": "admin",
	"system:aggregate-to-edit": "edit", "view": "edit",
	"system:aggregate-to-view": "view",
}

// Defaults returns the default ClusterRoles, Roles and bindings as objects, equal to kube-apiserver's with these feature gates. The caller
// owns them.
func Defaults(g feature.Gates) []objects.Object {
	var out []objects.Object
	for _, r := range slices.Concat(allClusterRoles(g), namespaceRoles()) {
		out = append(out, r.objects()...)
	}
	return out
}

// allClusterRoles returns the default ClusterRoles.
func allClusterRoles(g feature.Gates) []role {
	return slices.Concat(clusterRoles(g), controllerRoles(g), userFacingRoles(g), unboundRoles())
}

func (r role) objects() []objects.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: r.in, Labels: map[string]string{bootstrappingLabel: rbacDefaults},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		}
	}
	binding := r.bindingName()
	if r.in != "" {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.name}
		return []objects.Object{
			&rbacv1.Role{ObjectMeta: meta(r.name), Rules: r.rules},
			&rbacv1.RoleBinding{ObjectMeta: meta(binding), RoleRef: ref, Subjects: r.subjects()},
		}
	}
	cr := &rbacv1.ClusterRole{ObjectMeta: meta(r.name), Rules: r.rules}
	if into := aggregated[r.name]; into != "" {
		cr.Labels[aggregateTo+into] = "true"
	}
	if r.name == "admin" || r.name == "edit" || r.name == "view" {
		cr.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + r.name: "true"}}}}
	}
	if binding == "" {
		return []objects.Object{cr}
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.name}
	return []objects.Object{cr, &rbacv1.ClusterRoleBinding{ObjectMeta: meta(binding), RoleRef: ref, Subjects: r.subjects()}}
}

func (r role) subjects() []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, to := range r.to {
		out = append(out, subjectOf(to))
	}
	return out
}

// subjectOf parses "user NAME", "group NAME" or "account NAME".
func subjectOf(to string) rbacv1.Subject {
	kind, name, _ := strings.Cut(to, " ")
	switch kind {
	case "user":
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	case "group":
		return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}
