// Package builtin lists the resources that are compiled in. Adding one is adding a line here.
package builtin

import (
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/admissionregistration"
	"github.com/minikctl/minikctl/pkg/objects/apiextensions"
	"github.com/minikctl/minikctl/pkg/objects/apiregistration"
	"github.com/minikctl/minikctl/pkg/objects/apps"
	"github.com/minikctl/minikctl/pkg/objects/authentication"
	"github.com/minikctl/minikctl/pkg/objects/authorization"
	"github.com/minikctl/minikctl/pkg/objects/batch"
	"github.com/minikctl/minikctl/pkg/objects/coordination"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/objects/flowcontrol"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/objects/rbac"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// Resources is every built-in resource.
var Resources = []objects.Resource{
	objects.Row(core.Bindings),
	objects.Row(core.ConfigMaps),
	objects.Row(core.Events),
	objects.Row(core.LimitRanges),
	objects.Row(core.Namespaces),
	objects.Row(core.Nodes),
	objects.Row(core.PersistentVolumeClaims),
	objects.Row(core.PersistentVolumes),
	objects.Row(core.PodTemplates),
	objects.Row(core.Pods),
	objects.Row(core.ReplicationControllers),
	objects.Row(core.ResourceQuotas),
	objects.Row(core.Secrets),
	objects.Row(core.ServiceAccounts),
	objects.Row(core.Services),
	objects.Row(apps.ControllerRevisions),
	objects.Row(apps.DaemonSets),
	objects.Row(apps.Deployments),
	objects.Row(apps.ReplicaSets),
	objects.Row(apps.StatefulSets),
	objects.Row(authentication.SelfSubjectReviews),
	objects.Row(authentication.TokenReviews),
	objects.Row(authorization.LocalSubjectAccessReviews),
	objects.Row(authorization.SelfSubjectAccessReviews),
	objects.Row(authorization.SelfSubjectRulesReviews),
	objects.Row(authorization.SubjectAccessReviews),
	objects.Row(batch.CronJobs),
	objects.Row(batch.Jobs),
	objects.Row(coordination.Leases),
	objects.Row(scheduling.PriorityClasses),
	objects.Row(apiextensions.CustomResourceDefinitions),
	objects.Row(admissionregistration.MutatingAdmissionPolicies),
	objects.Row(admissionregistration.MutatingAdmissionPolicyBindings),
	objects.Row(admissionregistration.MutatingWebhookConfigurations),
	objects.Row(admissionregistration.ValidatingAdmissionPolicies),
	objects.Row(admissionregistration.ValidatingAdmissionPolicyBindings),
	objects.Row(admissionregistration.ValidatingWebhookConfigurations),
	objects.Row(networking.IngressClasses),
	objects.Row(networking.Ingresses),
	objects.Row(networking.NetworkPolicies),
	objects.Row(networking.IPAddresses),
	objects.Row(networking.ServiceCIDRs),
	objects.Row(storage.StorageClasses),
	objects.Row(storage.VolumeAttributesClasses),
	objects.Row(flowcontrol.FlowSchemas),
	objects.Row(flowcontrol.PriorityLevelConfigurations),
	objects.Row(rbac.ClusterRoleBindings),
	objects.Row(rbac.ClusterRoles),
	objects.Row(rbac.RoleBindings),
	objects.Row(rbac.Roles),
	objects.Row(apiregistration.APIServices),
}
