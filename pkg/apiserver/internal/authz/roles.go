package authz

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// role is a default role with the subjects that it is bound to.
type role struct {
	name  string
	in    string   // namespace; "": a ClusterRole
	to    []string // "user NAME", "group NAME" or "account NAME" in kube-system
	rules []rbacv1.PolicyRule

	binding string // its binding's name if it differs from the role's, or if the binding has no subjects
}

// bindingName returns the name of the role's binding, or "" without one.
func (r role) bindingName() string {
	if r.binding == "" && len(r.to) > 0 {
		return r.name
	}
	return r.binding
}

// on builds a rule from space-separated verbs, API groups ("core" is the empty one) and resources.
func on(verbs, groups, resources string) rbacv1.PolicyRule {
	g := strings.Fields(groups)
	for i := range g {
		if g[i] == "core" {
			g[i] = ""
		}
	}
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: g, Resources: strings.Fields(resources)}
}

// named builds a rule like on, restricted to objects of certain names.
func named(verbs, groups, resources, names string) rbacv1.PolicyRule {
	r := on(verbs, groups, resources)
	r.ResourceNames = strings.Fields(names)
	return r
}

// paths builds a rule for non-resource URLs.
func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}

const (
	read  = "get list watch"
	write = "create update patch delete deletecollection"

	scheduling = "scheduling.k8s.io" // the group of PodGroups
)

func events() rbacv1.PolicyRule { return on("create update patch", "core events.k8s.io", "events") }

// reports allows a component to record its steps in minikctl's own resources. It has no counterpart in Kubernetes' roles.
func reports() rbacv1.PolicyRule { return on("create", "minikctl.dev", "traces decisions") }

// builtin returns the grants of the default roles and bindings.
func builtin(g feature.Gates) *Index {
	x := NewIndex()
	for _, r := range slices.Concat(allClusterRoles(g), namespaceRoles()) {
		for _, to := range r.to {
			r.bind(x, to)
		}
	}
	return x
}

func (r role) bind(x *Index, to string) {
	s := subjectOf(to)
	info := shown(s, "")
	reason := fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of ClusterRole %q to %s %q", r.bindingName(), r.name, s.Kind, info)
	if r.in != "" {
		reason = fmt.Sprintf("RBAC: allowed by RoleBinding %q of Role %q to %s %q", r.bindingName()+"/"+r.in, r.name, s.Kind, info)
	}
	x.Add(s, "", Grant{Reason: reason, Namespace: r.in, Rules: r.rules})
}

// clusterRoles returns the default ClusterRoles of users and components.
func clusterRoles(g feature.Gates) []role {
	known, unknown := "group "+user.AllAuthenticated, "group "+user.AllUnauthenticated
	var podGroups []rbacv1.PolicyRule
	if g.GenericWorkload {
		podGroups = []rbacv1.PolicyRule{on(read, scheduling, "podgroups"), on("patch update", scheduling, "podgroups/status")}
	}
	return []role{
		{name: "minikctl:reporter", rules: []rbacv1.PolicyRule{reports(), on("create", "minikctl.dev", "schedulerconfigs bindingbatches")}, to: []string{
			"user " + user.KubeScheduler, "user " + user.KubeControllerManager, "user " + user.KubeProxy, "group system:serviceaccounts:kube-system",
		}},
		{name: "cluster-admin", to: []string{"group " + user.SystemPrivilegedGroup}, rules: []rbacv1.PolicyRule{
			on("*", "*", "*"),
			paths("*", "*"),
		}},
		{name: "system:monitoring", to: []string{"group " + user.MonitoringGroup}, rules: []rbacv1.PolicyRule{
			paths("get", "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /statusz /flagz"),
			on("get", "core", "nodes/metrics"),
		}},
		{name: "system:discovery", to: []string{known}, rules: []rbacv1.PolicyRule{
			paths("get", "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*"),
		}},
		{name: "system:basic-user", to: []string{known}, rules: []rbacv1.PolicyRule{
			on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
			on("create", "authentication.k8s.io", "selfsubjectreviews"),
		}},
		{name: "system:public-info-viewer", to: []string{known, unknown}, rules: []rbacv1.PolicyRule{
			paths("get", "/livez /readyz /healthz /version /version/"),
		}},
		{name: "system:service-account-issuer-discovery", to: []string{"group system:serviceaccounts"}, rules: []rbacv1.PolicyRule{
			paths("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
		}},
		{name: "system:node-proxier", to: []string{"user " + user.KubeProxy}, rules: []rbacv1.PolicyRule{
			on("list watch", "core", "services endpoints"),
			on(read, "core", "nodes"),
			on("list watch", "networking.k8s.io", "servicecidrs"),
			on("list watch", "discovery.k8s.io", "endpointslices"),
			events(),
		}},
		{name: "system:kube-controller-manager", to: []string{"user " + user.KubeControllerManager}, rules: []rbacv1.PolicyRule{
			events(),
			on("create", "coordination.k8s.io", "leases"),
			named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
			on("create", "core", "secrets serviceaccounts"),
			on("delete", "core", "secrets"),
			on("get", "core", "namespaces secrets serviceaccounts configmaps"),
			on("update", "core", "secrets serviceaccounts"),
			on("create", "authentication.k8s.io", "tokenreviews"),
			on("create", "authorization.k8s.io", "subjectaccessreviews"),
			on("list watch", "*", "*"),
			on("create", "core", "serviceaccounts/token"),
		}},
		{name: "system:kube-scheduler", to: []string{"user " + user.KubeScheduler}, rules: append([]rbacv1.PolicyRule{
			events(),
			on("create", "coordination.k8s.io", "leases"),
			named(read+" update", "coordination.k8s.io", "leases", "kube-scheduler"),
			on(read+" "+write, "coordination.k8s.io", "leasecandidates"),
			on(read, "core", "nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes"),
			on(read+" delete", "core", "pods"),
			on("create", "core", "pods/binding bindings"),
			on("patch update", "core", "pods/status"),
			on(read, "apps extensions", "replicasets"),
			on(read, "apps", "statefulsets"),
			on(read, "policy", "poddisruptionbudgets"),
			on("create", "authentication.k8s.io", "tokenreviews"),
			on("create", "authorization.k8s.io", "subjectaccessreviews"),
			on(read, "storage.k8s.io", "csinodes csidrivers csistoragecapacities volumeattachments"),
			on(read, "resource.k8s.io", "deviceclasses resourceslices"),
			on(read+" create update patch delete", "resource.k8s.io", "resourceclaims"),
			on(read+" update patch", "resource.k8s.io", "resourceclaims/status"),
			on("update patch", "resource.k8s.io", "resourceclaims/binding"),
			on("update", "core", "pods/finalizers"),
		}, podGroups...)},
		{name: "system:volume-scheduler", to: []string{"user " + user.KubeScheduler}, rules: []rbacv1.PolicyRule{
			on(read+" update patch", "core", "persistentvolumes persistentvolumeclaims"),
			on(read, "storage.k8s.io", "storageclasses"),
		}},
	}
}

// namespaceRoles returns the default Roles.
func namespaceRoles() []role {
	lock := []rbacv1.PolicyRule{on(read+" create update", "coordination.k8s.io", "leases leasecandidates")}
	const system, public = "kube-system", "kube-public"
	return []role{
		{name: "extension-apiserver-authentication-reader", in: system, binding: "system::extension-apiserver-authentication-reader",
			to:    []string{"user " + user.KubeControllerManager, "user " + user.KubeScheduler},
			rules: []rbacv1.PolicyRule{named(read, "core", "configmaps", "extension-apiserver-authentication")}},
		{name: "system::leader-locking-kube-controller-manager", in: system,
			to: []string{"user " + user.KubeControllerManager, "account kube-controller-manager", "account leader-election-controller"}, rules: lock},
		{name: "system::leader-locking-kube-scheduler", in: system,
			to: []string{"user " + user.KubeScheduler, "account kube-scheduler"}, rules: lock},
		{name: "system:controller:bootstrap-signer", in: system, to: []string{"account bootstrap-signer"},
			rules: []rbacv1.PolicyRule{on(read, "core", "secrets")}},
		{name: "system:controller:bootstrap-signer", in: public, to: []string{"account bootstrap-signer"},
			rules: []rbacv1.PolicyRule{on(read, "core", "configmaps"), named("update", "core", "configmaps", "cluster-info"), events()}},
		{name: "system:controller:cloud-provider", in: system, to: []string{"account cloud-provider"},
			rules: []rbacv1.PolicyRule{on(read+" create", "core", "configmaps")}},
		{name: "system:controller:token-cleaner", in: system, to: []string{"account token-cleaner"},
			rules: []rbacv1.PolicyRule{on(read+" delete", "core", "secrets"), events()}},
	}
}

// nodeRules returns what a node may do regardless of its pods. Where they allow too much, the node authorizer or the
// NodeRestriction admission plugin narrows them.
func nodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on("create", "authentication.k8s.io", "tokenreviews"),
		on("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
		on(read, "core", "services"),
		on("create update patch", "core events.k8s.io", "events"),
		on("get", "core", "endpoints serviceaccounts"),
		on("create "+read, "certificates.k8s.io", "certificatesigningrequests"),
		on(read, "storage.k8s.io", "csidrivers"),
		on(read, "node.k8s.io", "runtimeclasses"),
		reports(),
	}
}
