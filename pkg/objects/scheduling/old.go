package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldPriorityClasses = []objects.Version[*schedulingv1.PriorityClass]{
		objects.Removed("scheduling.k8s.io/v1beta1", "PriorityClass", func() *schedulingv1.PriorityClass { return &schedulingv1.PriorityClass{} },
			func() *schedulingv1beta1.PriorityClass { return &schedulingv1beta1.PriorityClass{} }, func() runtime.Object { return &schedulingv1beta1.PriorityClassList{} }),
	}
)
