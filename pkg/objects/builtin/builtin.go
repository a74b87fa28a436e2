// Package builtin lists the compiled-in resources and their groups. A new one is a line here.
package builtin

import (
	"sync"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/admissionregistration"
	"github.com/minikctl/minikctl/pkg/objects/apiextensions"
	"github.com/minikctl/minikctl/pkg/objects/apiregistration"
	"github.com/minikctl/minikctl/pkg/objects/apps"
	"github.com/minikctl/minikctl/pkg/objects/authentication"
	"github.com/minikctl/minikctl/pkg/objects/authorization"
	"github.com/minikctl/minikctl/pkg/objects/autoscaling"
	"github.com/minikctl/minikctl/pkg/objects/batch"
	"github.com/minikctl/minikctl/pkg/objects/certificates"
	"github.com/minikctl/minikctl/pkg/objects/coordination"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/objects/discovery"
	"github.com/minikctl/minikctl/pkg/objects/flowcontrol"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/objects/node"
	"github.com/minikctl/minikctl/pkg/objects/policy"
	"github.com/minikctl/minikctl/pkg/objects/rbac"
	"github.com/minikctl/minikctl/pkg/objects/resource"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
	"github.com/minikctl/minikctl/pkg/objects/storage"
)

// Groups lists the groups of the resources, and those of their older versions and of the virtual resources.
var Groups = []*objects.Group{
	&apiregistration.Group,
	&core.Group,
	&core.EventsGroup,
	&apps.Group,
	&authentication.Group,
	&authorization.Group,
	&autoscaling.Group,
	&batch.Group,
	&certificates.Group,
	&networking.Group,
	&policy.Group,
	&rbac.Group,
	&storage.Group,
	&admissionregistration.Group,
	&apiextensions.Group,
	&scheduling.Group,
	&coordination.Group,
	&node.Group,
	&discovery.Group,
	&resource.Group,
	&flowcontrol.Group,
	{Name: "extensions", Priority: 1000}, // no release of Kubernetes serves it any more
	&metrics.Group,
	&minikctl.Group,
}

// Resources returns every built-in resource of a cluster without feature gates. The slice is shared and must not be changed. The first call
// makes the rows: most commands need none.
var Resources = sync.OnceValue(func() []objects.Resource { return withoutSchedulingGroups(rows()) })

// rows lists the resources that do not depend on feature gates.
var rows = sync.OnceValue(func() []objects.Resource {
	return []objects.Resource{
		objects.Row(core.Bindings),
		objects.Row(core.ComponentStatuses),
		objects.Row(core.ConfigMaps),
		objects.Row(core.Endpoints),
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
		objects.Row(autoscaling.HorizontalPodAutoscalers),
		objects.Row(batch.CronJobs),
		objects.Row(batch.Jobs),
		objects.Row(certificates.CertificateSigningRequests),
		objects.Row(coordination.Leases),
		objects.Row(policy.PodDisruptionBudgets),
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
		objects.Row(discovery.EndpointSlices),
		objects.Row(node.RuntimeClasses),
		objects.Row(storage.CSIDrivers),
		objects.Row(storage.CSINodes),
		objects.Row(storage.CSIStorageCapacities),
		objects.Row(storage.VolumeAttachments),
		objects.Row(resource.DeviceClasses),
		objects.Row(resource.ResourceClaims),
		objects.Row(resource.ResourceClaimTemplates),
		objects.Row(resource.ResourceSlices),
	}
})
