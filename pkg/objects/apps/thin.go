package apps

import (
	"github.com/minikctl/minikctl/pkg/objects/check"
	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDeployment(n, old *appsv1.Deployment) field.ErrorList {
	if old == nil {
		return check.Meta(n, true, apivalidation.NameIsDNSSubdomain)
	}
	return check.MetaUpdate(n, old)
}
func validateDeploymentStatus(n, old *appsv1.Deployment) field.ErrorList {
	return check.MetaUpdate(n, old)
}
func validateReplicaSet(n, old *appsv1.ReplicaSet) field.ErrorList {
	if old == nil {
		return check.Meta(n, true, apivalidation.NameIsDNSSubdomain)
	}
	return check.MetaUpdate(n, old)
}
func validateReplicaSetStatus(n, old *appsv1.ReplicaSet) field.ErrorList {
	return check.MetaUpdate(n, old)
}
func deploymentWarnings(n, old *appsv1.Deployment) []string { return nil }
func replicaSetWarnings(n, old *appsv1.ReplicaSet) []string { return nil }
