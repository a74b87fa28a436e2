package core

import (
	"github.com/minikctl/minikctl/pkg/objects/check"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateNode(n, old *corev1.Node) field.ErrorList {
	if old == nil {
		return check.Meta(n, false, apivalidation.NameIsDNSSubdomain)
	}
	return check.MetaUpdate(n, old)
}
func validateNodeStatus(n, old *corev1.Node) field.ErrorList { return check.MetaUpdate(n, old) }
func validateEvent(n, old *corev1.Event) field.ErrorList {
	if old == nil {
		return check.Meta(n, true, apivalidation.NameIsDNSSubdomain)
	}
	return check.MetaUpdate(n, old)
}
func validateService(n, old *corev1.Service) field.ErrorList {
	if old == nil {
		return check.Meta(n, true, apivalidation.NameIsDNS1035Label)
	}
	return check.MetaUpdate(n, old)
}
func validateServiceStatus(n, old *corev1.Service) field.ErrorList { return check.MetaUpdate(n, old) }
func podWarnings(p, old *corev1.Pod) []string                      { return nil }
func serviceWarnings(p, old *corev1.Service) []string              { return nil }
func prepareService(s, old *corev1.Service) {
	if old != nil {
		s.Status = old.Status
	} else {
		s.Status = corev1.ServiceStatus{}
	}
}
