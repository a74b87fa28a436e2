package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

var deviceClaims = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}

// deviceEvaluator counts ResourceClaims, and the maximum number of devices of each class that they can be allocated.
var deviceEvaluator = Evaluator{
	changed: func(sub string, _, _ objects.Object) bool { return sub == "" },
	names:   []corev1.ResourceName{countOf(deviceClaims)},
	matching: func(name corev1.ResourceName) bool {
		return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
	},
	usage: func(obj objects.Object, _ time.Time) corev1.ResourceList {
		out := corev1.ResourceList{countOf(deviceClaims): one}
		for _, r := range obj.(*resourcev1.ResourceClaim).Spec.Devices.Requests {
			for name, n := range devices(r) {
				q := out[name]
				q.Add(*resource.NewQuantity(n, resource.DecimalSI))
				out[name] = q
			}
		}
		return out
	},
}

// devices returns the maximum number of devices of each class for a request, over its alternatives.
func devices(r resourcev1.DeviceRequest) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{}
	note := func(class string, mode resourcev1.DeviceAllocationMode, count int64) {
		if mode == resourcev1.DeviceAllocationModeAll {
			count = resourcev1.AllocationResultsMaxSize
		} else if mode != resourcev1.DeviceAllocationModeExactCount {
			count = 0 // unknown mode
		}
		name := corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
		out[name] = max(out[name], count)
	}
	for _, s := range r.FirstAvailable {
		note(s.DeviceClassName, s.AllocationMode, s.Count)
	}
	if e := r.Exactly; e != nil && len(r.FirstAvailable) == 0 {
		note(e.DeviceClassName, e.AllocationMode, e.Count)
	}
	return out
}
