package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// userFacingRoles returns the user-facing ClusterRoles admin, edit, view and their parts. No default binding refers to
// them.
func userFacingRoles(g feature.Gates) []role {
	view, edit := viewRules(), editRules()
	if g.GenericWorkload {
		view = append(view, on(read, scheduling, "workloads podgroups podgroups/status"))
		edit = append(edit, on(write, scheduling, "workloads podgroups"))
	}
	admin := []rbacv1.PolicyRule{
		on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
		on(readWrite, rbacv1.GroupName, "roles rolebindings"),
	}
	return []role{
		{name: "system:aggregate-to-view", rules: view},
		{name: "system:aggregate-to-edit", rules: edit},
		{name: "system:aggregate-to-admin", rules: admin},
		{name: "view", rules: view},
		{name: "edit", rules: slices.Concat(edit, view)},
		{name: "admin", rules: slices.Concat(edit, view, admin)},
	}
}

const readWrite = write + " " + read

// viewRules allow read access to everything in a namespace except Secrets and roles.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(read, "core", `pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status endpoints
			persistentvolumeclaims persistentvolumeclaims/status configmaps`),
		on(read, "core", `limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status
			replicationcontrollers/status pods/log`),
		on(read, "core", "namespaces"),
		on(read, "core events.k8s.io", "events"),
		on(read, "discovery.k8s.io", "endpointslices"),
		on(read, "apps", `controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status
			deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale`),
		on(read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
		on(read, "batch", "jobs cronjobs cronjobs/status jobs/status"),
		on(read, "extensions", `daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status
			replicasets replicasets/scale replicasets/status replicationcontrollers/scale networkpolicies`),
		on(read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
		on(read, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
		on(read, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
	}
}

// editRules allow write access to a namespace, except to roles, bindings and quotas.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(read, "core", "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
		on("impersonate", "core", "serviceaccounts"),
		on(write, "core", "pods pods/attach pods/proxy pods/exec pods/portforward"),
		on("create", "core", "pods/eviction"),
		on(write, "core", `replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy
			persistentvolumeclaims configmaps secrets`),
		on("create", "core", "serviceaccounts/token"),
		on(write, "core events.k8s.io", "events"),
		on(write, "apps", `statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback
			replicasets replicasets/scale`),
		on(write, "autoscaling", "horizontalpodautoscalers"),
		on(write, "batch", "jobs cronjobs"),
		on(write, "extensions", `daemonsets deployments deployments/scale deployments/rollback ingresses replicasets
			replicasets/scale replicationcontrollers/scale networkpolicies`),
		on(write, "policy", "poddisruptionbudgets"),
		on(write, "networking.k8s.io", "networkpolicies ingresses"),
		on(readWrite, "coordination.k8s.io", "leases"),
		on(write, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
	}
}
