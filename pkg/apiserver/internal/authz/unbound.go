package authz

import rbacv1 "k8s.io/api/rbac/v1"

// unboundRoles returns the default ClusterRoles for add-ons and joining nodes, which no default binding refers to. Nodes are
// authorized by their pods (node.go); the role system:node exists for bindings of old clusters.
func unboundRoles() []role {
	const signing, requests = "certificates.k8s.io", "certificatesigningrequests"
	list := []role{
		{name: "system:auth-delegator", rules: []rbacv1.PolicyRule{
			on("create", "authentication.k8s.io", "tokenreviews"),
			on("create", "authorization.k8s.io", "subjectaccessreviews"),
		}},
		{name: "system:heapster", rules: []rbacv1.PolicyRule{
			on(read, "core", "events namespaces nodes pods"),
			on(read, "extensions", "deployments"),
		}},
		{name: "system:kube-aggregator", rules: []rbacv1.PolicyRule{on(read, "core", "endpoints services")}},
		{name: "system:kube-dns", to: []string{"account kube-dns"}, rules: []rbacv1.PolicyRule{on("list watch", "core", "endpoints services")}},
		{name: "system:kubelet-api-admin", rules: []rbacv1.PolicyRule{
			on(read+" proxy", "core", "nodes"),
			on("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats nodes/configz nodes/healthz nodes/pods"),
		}},
		{name: "system:node-bootstrapper", rules: []rbacv1.PolicyRule{on("create "+read, signing, requests)}},
		{name: "system:node-problem-detector", rules: []rbacv1.PolicyRule{
			on("get", "core", "nodes"), on("patch", "core", "nodes/status"), events(),
		}},
		{name: "system:persistent-volume-provisioner", rules: []rbacv1.PolicyRule{
			on(read+" create delete", "core", "persistentvolumes"),
			on(read+" update", "core", "persistentvolumeclaims"),
			on(read, "storage.k8s.io", "storageclasses"),
			on("watch", "core", "events"), events(),
		}},
		{name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", rules: []rbacv1.PolicyRule{on("create", signing, requests+"/nodeclient")}},
		{name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rules: []rbacv1.PolicyRule{on("create", signing, requests+"/selfnodeclient")}},
		{name: "system:node", binding: "system:node", rules: []rbacv1.PolicyRule{
			on("create", "authentication.k8s.io", "tokenreviews"),
			on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
			on(read, "core", "services"),
			on("create "+read+" update patch", "core", "nodes"),
			on("patch update", "core", "nodes/status"),
			events(),
			on(read+" create delete", "core", "pods"),
			on("patch update", "core", "pods/status"),
			on("create", "core", "pods/eviction"),
			on(read, "core", "configmaps secrets"),
			on("get", "core", "persistentvolumeclaims persistentvolumes endpoints serviceaccounts"),
			on("create "+read, signing, requests),
			on("create delete get patch update", "coordination.k8s.io", "leases"),
			on("get", "storage.k8s.io", "volumeattachments"),
			on("create", "core", "serviceaccounts/token"),
			on("get patch update", "core", "persistentvolumeclaims/status"),
			on(read, "storage.k8s.io", "csidrivers"),
			on("create delete get patch update", "storage.k8s.io", "csinodes"),
			on(read, "node.k8s.io", "runtimeclasses"),
			on("get", "resource.k8s.io", "resourceclaims"),
			on("deletecollection", "resource.k8s.io", "resourceslices"),
		}},
	}
	for _, signer := range []string{"kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown"} {
		list = append(list, role{name: "system:certificates.k8s.io:" + signer + "-approver", rules: []rbacv1.PolicyRule{
			named("approve", signing, "signers", "kubernetes.io/"+signer),
		}})
	}
	return list
}
