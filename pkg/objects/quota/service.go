package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

var serviceEvaluator = Evaluator{
	changed: func(sub string, _, _ objects.Object) bool { return sub == "" },
	names: []corev1.ResourceName{countOf(schema.GroupResource{Resource: "services"}), corev1.ResourceServices,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers},
	usage: func(obj objects.Object, _ time.Time) corev1.ResourceList {
		s := obj.(*corev1.Service)
		ports, balancers := 0, int64(0)
		switch s.Spec.Type {
		case corev1.ServiceTypeNodePort:
			ports = len(s.Spec.Ports)
		case corev1.ServiceTypeLoadBalancer:
			ports, balancers = balancedPorts(s), 1
		}
		return corev1.ResourceList{
			countOf(schema.GroupResource{Resource: "services"}): one, corev1.ResourceServices: one,
			corev1.ResourceServicesNodePorts:     *resource.NewQuantity(int64(ports), resource.DecimalSI),
			corev1.ResourceServicesLoadBalancers: *resource.NewQuantity(balancers, resource.DecimalSI),
		}
	},
}

// balancedPorts counts the node ports of a load balancer, which are optional.
func balancedPorts(s *corev1.Service) int {
	if a := s.Spec.AllocateLoadBalancerNodePorts; a == nil || *a {
		return len(s.Spec.Ports)
	}
	n := 0
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			n++
		}
	}
	return n
}

// ofClass is the middle of resource names for claims of one storage class: gold.storageclass.storage.k8s.io/….
const ofClass = ".storageclass.storage.k8s.io/"

var claimEvaluator = Evaluator{
	changed: func(sub string, _, _ objects.Object) bool { return sub == "" || sub == "status" },
	names: []corev1.ResourceName{countOf(schema.GroupResource{Resource: "persistentvolumeclaims"}),
		corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage},
	matching: func(name corev1.ResourceName) bool {
		return strings.HasSuffix(string(name), ofClass+string(corev1.ResourceRequestsStorage)) ||
			strings.HasSuffix(string(name), ofClass+string(corev1.ResourcePersistentVolumeClaims))
	},
	inScope: claimInScope,
	usage:   claimUsage,
}

func claimUsage(obj objects.Object, _ time.Time) corev1.ResourceList {
	c := obj.(*corev1.PersistentVolumeClaim)
	out := corev1.ResourceList{countOf(schema.GroupResource{Resource: "persistentvolumeclaims"}): one, corev1.ResourcePersistentVolumeClaims: one}
	class := classOf(c)
	if class != "" {
		out[corev1.ResourceName(class+ofClass)+corev1.ResourcePersistentVolumeClaims] = one
	}
	size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if allocated, has := c.Status.AllocatedResources[corev1.ResourceStorage]; has && (!ok || allocated.Cmp(size) > 0) {
		size, ok = allocated, true
	}
	if !ok {
		return out
	}
	out[corev1.ResourceRequestsStorage] = size
	if class != "" {
		out[corev1.ResourceName(class+ofClass)+corev1.ResourceRequestsStorage] = size
	}
	return out
}

func classOf(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}

// claimInScope checks the current, desired and target VolumeAttributesClass of a claim.
func claimInScope(obj objects.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	c := obj.(*corev1.PersistentVolumeClaim)
	names := map[string]bool{}
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names[*name] = true
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names[m.TargetVolumeAttributesClassName] = true
	}
	if s.Operator == corev1.ScopeSelectorOpExists {
		return len(names) > 0, nil
	}
	if len(names) == 0 {
		return selects(s, "")
	}
	for name := range names {
		if in, err := selects(s, name); in || err != nil {
			return in, err
		}
	}
	return false, nil
}
