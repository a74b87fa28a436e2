package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func validateSchedulingGroup(g *corev1.PodSchedulingGroup, at *field.Path) field.ErrorList {
	switch {
	case g == nil:
		return nil
	case g.PodGroupName == nil:
		return field.ErrorList{field.Invalid(at.Child("podGroupName"), g.PodGroupName, "must specify one of: `podGroupName`")}
	}
	return check.Subdomain(*g.PodGroupName, at, "podGroupName")
}
