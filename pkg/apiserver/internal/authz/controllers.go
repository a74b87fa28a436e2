package authz

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// controllerRoles returns the roles of the controllers. Each controller has its own ServiceAccount in kube-system.
func controllerRoles(g feature.Gates) []role {
	table := map[string][]rbacv1.PolicyRule{
		"attachdetach-controller": {
			on("list watch", "core", "persistentvolumes persistentvolumeclaims pods"),
			on(read, "core", "nodes"),
			on("patch update", "core", "nodes/status"),
			on(read+" create delete", "storage.k8s.io", "volumeattachments"),
			on(read, "storage.k8s.io", "csidrivers csinodes"),
		},
		"certificate-controller": {
			on(read+" delete", "certificates.k8s.io", "certificatesigningrequests"),
			on("update", "certificates.k8s.io", "certificatesigningrequests/status certificatesigningrequests/approval"),
			named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
			named("sign", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown kubernetes.io/kube-apiserver-client "+
				"kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"),
			on("create", "authorization.k8s.io", "subjectaccessreviews"),
		},
		"clusterrole-aggregation-controller": {
			on(read+" escalate update patch", "rbac.authorization.k8s.io", "clusterroles"),
		},
		"cronjob-controller": {
			on(read+" update", "batch", "cronjobs"),
			on(read+" create update delete patch", "batch", "jobs"),
			on("update", "batch", "cronjobs/status cronjobs/finalizers"),
			on("list watch delete", "core", "pods"),
		},
		"daemon-set-controller": {
			on(read, "extensions apps", "daemonsets"),
			on("update", "extensions apps", "daemonsets/status daemonsets/finalizers"),
			on("list watch", "core", "nodes"),
			on("list watch create delete patch", "core", "pods"),
			on("create", "core", "pods/binding"),
			on(read+" create delete update patch", "apps", "controllerrevisions"),
		},
		"deployment-controller": {
			on(read+" update", "extensions apps", "deployments"),
			on("update", "extensions apps", "deployments/status deployments/finalizers"),
			on(read+" create update patch delete", "extensions apps", "replicasets"),
			on(read+" update", "core", "pods"),
		},
		"device-taint-eviction-controller": {
			on(read+" delete", "core", "pods"),
			on("update patch", "core", "pods/status"),
			on(read, "resource.k8s.io", "resourceclaims resourceslices deviceclasses"),
		},
		"disruption-controller": {
			on(read, "extensions apps", "deployments replicasets"),
			on(read, "apps", "statefulsets"),
			on(read, "core", "replicationcontrollers"),
			on(read, "policy", "poddisruptionbudgets"),
			on("update", "policy", "poddisruptionbudgets/status"),
			on("patch update", "core", "pods/status"),
			on("get", "*", "*/scale"),
		},
		"endpoint-controller": {
			on(read, "core", "services pods"),
			on(read+" create update delete", "core", "endpoints"),
			on("create", "core", "endpoints/restricted"),
		},
		"endpointslice-controller": {
			on(read, "core", "services pods nodes"),
			on("update", "core", "services/finalizers"),
			on(read+" create update delete", "discovery.k8s.io", "endpointslices"),
		},
		"endpointslicemirroring-controller": {
			on(read, "core", "services endpoints"),
			on("update", "core", "services/finalizers endpoints/finalizers"),
			on(read+" create update delete", "discovery.k8s.io", "endpointslices"),
		},
		"ephemeral-volume-controller": {
			on(read, "core", "pods"),
			on("update", "core", "pods/finalizers"),
			on(read+" create", "core", "persistentvolumeclaims"),
		},
		"expand-controller": {
			on(read+" update patch", "core", "persistentvolumes"),
			on("update patch", "core", "persistentvolumeclaims/status"),
			on(read, "core", "persistentvolumeclaims"),
		},
		"generic-garbage-collector": {
			on(read+" patch update delete", "*", "*"),
		},
		"horizontal-pod-autoscaler": {
			on(read, "autoscaling", "horizontalpodautoscalers"),
			on("update", "autoscaling", "horizontalpodautoscalers/status"),
			on("get update", "*", "*/scale"),
			on("list watch", "core", "pods"),
			on("list watch", "metrics.k8s.io", "pods"),
			on(read, "custom.metrics.k8s.io external.metrics.k8s.io", "*"),
		},
		"job-controller": {
			on(read+" update patch", "batch", "jobs"),
			on("update", "batch", "jobs/status jobs/finalizers"),
			on("list watch create delete patch", "core", "pods"),
		},
		"legacy-service-account-token-cleaner": {
			named("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
			on("patch delete", "core", "secrets"),
		},
		"namespace-controller": {
			on(read+" delete", "core", "namespaces"),
			on("update", "core", "namespaces/finalize namespaces/status"),
			on(read+" delete deletecollection", "*", "*"),
		},
		"node-controller": {
			on(read+" update delete patch", "core", "nodes"),
			on("patch update", "core", "nodes/status pods/status"),
			on(read+" delete", "core", "pods"),
		},
		"persistent-volume-binder": {
			on(read+" update create delete", "core", "persistentvolumes"),
			on("update", "core", "persistentvolumes/status persistentvolumeclaims/status"),
			on(read+" update", "core", "persistentvolumeclaims"),
			on(read+" create delete", "core", "pods"),
			on(read, "storage.k8s.io", "storageclasses"),
			on("list watch", "core", "nodes"),
			on("watch", "core", "events"),
		},
		"pod-garbage-collector": {
			on("list watch delete", "core", "pods"),
			on(read, "core", "nodes"),
			on("patch", "core", "pods/status"),
		},
		"pv-protection-controller": {
			on(read+" update", "core", "persistentvolumes"),
		},
		"pvc-protection-controller": {
			on(read+" update", "core", "persistentvolumeclaims"),
			on("update", "core", "persistentvolumeclaims/status"),
			on(read, "core", "pods"),
		},
		"replicaset-controller": {
			on(read+" update", "extensions apps", "replicasets"),
			on("update", "extensions apps", "replicasets/status replicasets/finalizers"),
			on("list watch patch create delete", "core", "pods"),
		},
		"replication-controller": {
			on(read+" update", "core", "replicationcontrollers"),
			on("update", "core", "replicationcontrollers/status replicationcontrollers/finalizers"),
			on("list watch patch create delete", "core", "pods"),
		},
		"resource-claim-controller": {
			on(read, "core", "pods"),
			on("update", "core", "pods/finalizers"),
			on(read+" create delete update patch", "resource.k8s.io", "resourceclaims"),
			on("update patch", "resource.k8s.io", "resourceclaims/status resourceclaims/binding"),
			on("update patch", "core", "pods/status"),
		},
		"resourcequota-controller": {
			on("list watch", "*", "*"),
			on("update", "core", "resourcequotas/status"),
		},
		"root-ca-cert-publisher": {
			on("create update", "core", "configmaps"),
		},
		"route-controller": {
			on("list watch", "core", "nodes"),
			on("patch", "core", "nodes/status"),
		},
		"selinux-warning-controller": {
			on(read, "core", "persistentvolumes persistentvolumeclaims pods"),
			on(read, "storage.k8s.io", "csidrivers"),
		},
		"service-account-controller": {
			on("create", "core", "serviceaccounts"),
		},
		"service-cidrs-controller": {
			on(read+" patch update", "networking.k8s.io", "servicecidrs"),
			on("patch update", "networking.k8s.io", "servicecidrs/finalizers servicecidrs/status"),
			on(read, "networking.k8s.io", "ipaddresses"),
		},
		"service-controller": {
			on(read, "core", "services"),
			on("patch update", "core", "services/status"),
			on("list watch", "core", "nodes"),
		},
		"statefulset-controller": {
			on(read+" create delete update patch", "core", "pods"),
			on(read, "apps", "statefulsets"),
			on("update", "apps", "statefulsets/status statefulsets/finalizers"),
			on(read+" create delete update patch", "apps", "controllerrevisions"),
			on(read+" create update delete", "core", "persistentvolumeclaims"),
			on("update", "core", "pods/finalizers"),
		},
		"ttl-after-finished-controller": {
			on(read+" delete", "batch", "jobs"),
		},
		"ttl-controller": {
			on("update patch list watch", "core", "nodes"),
		},
		"validatingadmissionpolicy-status-controller": {
			on(read, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
			on("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
		},
		"volumeattributesclass-protection-controller": {
			on(read, "core", "persistentvolumeclaims persistentvolumes"),
			on(read+" update", "storage.k8s.io", "volumeattributesclasses"),
		},
	}
	if g.GenericWorkload {
		table["podgroup-protection-controller"] = []rbacv1.PolicyRule{on(read+" update", scheduling, "podgroups"), on(read, "core", "pods")}
	}
	list := make([]role, 0, len(table))
	for name, rules := range table {
		if !slices.Contains(controllersWithoutEvents, name) {
			rules = append(rules, events())
		}
		list = append(list, role{name: "system:controller:" + name, to: []string{"account " + name}, rules: rules})
	}
	return list
}

// controllersWithoutEvents are the controllers that create no Events, and whose roles do not allow it.
var controllersWithoutEvents = []string{
	"clusterrole-aggregation-controller", "legacy-service-account-token-cleaner", "namespace-controller", "pod-garbage-collector",
	"podgroup-protection-controller",
}
