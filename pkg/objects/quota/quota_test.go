package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	library "k8s.io/apiserver/pkg/quota/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func pod(requests, limits corev1.ResourceList, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
	if change != nil {
		change(p)
	}
	return p
}

func deviceClaim(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}
}

var now = time.Unix(1_000_000, 0)

func TestUsage(t *testing.T) {
	class := "gold"
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: list("storage", "1Gi")}}}
	balancer := func(allocate bool) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: &allocate,
			Ports: []corev1.ServicePort{{NodePort: 30000}, {}}}}
	}
	for name, c := range map[string]struct {
		resource string
		obj      objects.Object
		want     corev1.ResourceList
	}{
		"a plain pod": {"pods", pod(nil, nil, nil), list("pods", "1", "count/pods", "1")},
		"requests and limits": {"pods", pod(list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "ephemeral-storage", "1Gi"), nil),
			list("pods", "1", "count/pods", "1", "cpu", "1", "requests.cpu", "1", "memory", "1Gi", "requests.memory", "1Gi", "limits.cpu", "2", "limits.ephemeral-storage", "1Gi")},
		"an extended resource": {"pods", pod(list("example.com/gpu", "2"), list("example.com/gpu", "2"), nil),
			list("pods", "1", "count/pods", "1", "requests.example.com/gpu", "2")},
		"devices of a class": {"pods", pod(list("deviceclass.resource.kubernetes.io/fast", "2"), list("deviceclass.resource.kubernetes.io/fast", "2"), nil),
			list("pods", "1", "count/pods", "1", "requests.deviceclass.resource.kubernetes.io/fast", "2")},
		"what a pod has that waits for less": {"pods", pod(list("cpu", "1"), nil, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: list("cpu", "2"), Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3")}}}
		}), list("pods", "1", "count/pods", "1", "cpu", "3", "requests.cpu", "3")},
		"huge pages":           {"pods", pod(list("hugepages-2Mi", "4Mi"), nil, nil), list("pods", "1", "count/pods", "1", "hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi")},
		"a pod that has ended": {"pods", pod(list("cpu", "1"), nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), list("count/pods", "1")},
		"a pod that should have ended": {"pods", pod(list("cpu", "1"), nil, func(p *corev1.Pod) {
			at := metav1.NewTime(now.Add(-time.Minute))
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(30))
		}), list("count/pods", "1")},
		"a pod that is ending": {"pods", pod(nil, nil, func(p *corev1.Pod) {
			at := metav1.NewTime(now)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(30))
		}), list("pods", "1", "count/pods", "1")},
		"a service": {"services", &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{}}}}, list("services", "1", "count/services", "1", "services.nodeports", "0", "services.loadbalancers", "0")},
		"node ports": {"services", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{}, {}}}},
			list("services", "1", "count/services", "1", "services.nodeports", "2", "services.loadbalancers", "0")},
		"a load balancer":            {"services", balancer(true), list("services", "1", "count/services", "1", "services.nodeports", "2", "services.loadbalancers", "1")},
		"a load balancer's own port": {"services", balancer(false), list("services", "1", "count/services", "1", "services.nodeports", "1", "services.loadbalancers", "1")},
		"a claim": {"persistentvolumeclaims", claim, list("persistentvolumeclaims", "1", "count/persistentvolumeclaims", "1", "requests.storage", "1Gi",
			"gold.storageclass.storage.k8s.io/requests.storage", "1Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1")},
		"a claim of devices": {"resourceclaims.resource.k8s.io", deviceClaim(
			resourcev1.DeviceRequest{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}},
			resourcev1.DeviceRequest{Name: "b", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}},
			resourcev1.DeviceRequest{Name: "c", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic", AllocationMode: resourcev1.DeviceAllocationModeAll}},
		), list("count/resourceclaims.resource.k8s.io", "1", "gpu.deviceclass.resource.k8s.io/devices", "3", "nic.deviceclass.resource.k8s.io/devices", "32")},
		"a claim of one of several": {"resourceclaims.resource.k8s.io", deviceClaim(resourcev1.DeviceRequest{Name: "a", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "x", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
			{Name: "y", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4},
			{Name: "z", DeviceClassName: "nic", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}), list("count/resourceclaims.resource.k8s.io", "1", "gpu.deviceclass.resource.k8s.io/devices", "4", "nic.deviceclass.resource.k8s.io/devices", "1")},
		"counted without resources": {"configmaps", &corev1.ConfigMap{}, list("configmaps", "1", "count/configmaps", "1")},
		"of another group":          {"deployments.apps", &corev1.ConfigMap{}, list("count/deployments.apps", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := For(schema.ParseGroupResource(c.resource)).Usage(c.obj, now); !library.Equals(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	exists := func(s corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{s}}
	}
	classes := func(op corev1.ScopeSelectorOperator, names ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: names}}}}
	}
	plain, paid := pod(nil, nil, nil), pod(list("cpu", "1"), nil, nil)
	high := pod(nil, nil, func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	ends := pod(nil, nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) })
	crosses := pod(nil, nil, func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"x"}}}}}}
	})
	for name, c := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		in   []*corev1.Pod
		out  []*corev1.Pod
	}{
		"none":                     {corev1.ResourceQuotaSpec{}, []*corev1.Pod{plain, paid}, nil},
		"best effort":              {exists(corev1.ResourceQuotaScopeBestEffort), []*corev1.Pod{plain}, []*corev1.Pod{paid}},
		"not best effort":          {exists(corev1.ResourceQuotaScopeNotBestEffort), []*corev1.Pod{paid}, []*corev1.Pod{plain}},
		"terminating":              {exists(corev1.ResourceQuotaScopeTerminating), []*corev1.Pod{ends}, []*corev1.Pod{plain}},
		"not terminating":          {exists(corev1.ResourceQuotaScopeNotTerminating), []*corev1.Pod{plain}, []*corev1.Pod{ends}},
		"across namespaces":        {exists(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), []*corev1.Pod{crosses}, []*corev1.Pod{plain}},
		"with a class":             {exists(corev1.ResourceQuotaScopePriorityClass), []*corev1.Pod{high}, []*corev1.Pod{plain}},
		"of these classes":         {classes(corev1.ScopeSelectorOpIn, "high", "x"), []*corev1.Pod{high}, []*corev1.Pod{plain}},
		"of other classes":         {classes(corev1.ScopeSelectorOpNotIn, "high"), []*corev1.Pod{plain}, []*corev1.Pod{high}},
		"without a class":          {classes(corev1.ScopeSelectorOpDoesNotExist), []*corev1.Pod{plain}, []*corev1.Pod{high}},
		"a scope of other objects": {exists(corev1.ResourceQuotaScopeVolumeAttributesClass), nil, []*corev1.Pod{plain}},
	} {
		t.Run(name, func(t *testing.T) {
			e := For(schema.GroupResource{Resource: "pods"})
			for want, all := range map[bool][]*corev1.Pod{true: c.in, false: c.out} {
				for _, p := range all {
					if got, err := e.InScopes(&c.spec, p); err != nil || got != want {
						t.Errorf("%v, %v; want %v of %+v", got, err, want, p.Spec)
					}
				}
			}
			other := For(schema.GroupResource{Resource: "secrets"})
			if in, _ := other.InScopes(&c.spec, &corev1.Secret{}); in != (name == "none") {
				t.Errorf("a secret is in scope: %v", in)
			}
		})
	}
}

func TestNames(t *testing.T) {
	e := For(schema.GroupResource{Resource: "pods"})
	for _, name := range []string{"cpu", "pods", "count/pods", "hugepages-2Mi", "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/fast"} {
		if len(e.Names(list(name, "1"))) != 1 {
			t.Errorf("pods use no %s", name)
		}
	}
	for _, name := range []string{"services", "example.com/gpu", "limits.example.com/gpu", "requests.kubernetes.io/x", "deviceclass.resource.kubernetes.io/fast"} {
		if len(e.Names(list(name, "1"))) != 0 {
			t.Errorf("pods use %s", name)
		}
	}
}

func TestChanged(t *testing.T) {
	plain := pod(nil, nil, nil)
	ends := pod(nil, nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) })
	sooner := pod(nil, nil, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(3)) })
	for _, c := range []struct {
		resource, sub string
		obj, old      objects.Object
		want          bool
	}{
		{"pods", "", plain, plain, false},
		{"pods", "", ends, plain, true},
		{"pods", "", sooner, ends, false},
		{"pods", "status", ends, plain, false},
		{"pods", "resize", plain, plain, true},
		{"services", "", &corev1.Service{}, &corev1.Service{}, true},
		{"services", "status", &corev1.Service{}, &corev1.Service{}, false},
		{"persistentvolumeclaims", "status", &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, true},
		{"configmaps", "", &corev1.ConfigMap{}, &corev1.ConfigMap{}, false},
	} {
		if got := For(schema.GroupResource{Resource: c.resource}).Changed(c.sub, c.obj, c.old); got != c.want {
			t.Errorf("an update of %s/%s changes what is used: %v, want %v", c.resource, c.sub, got, c.want)
		}
	}
}
