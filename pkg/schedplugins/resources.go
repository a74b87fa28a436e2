package schedplugins

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// measured is a resource that a score uses, and its weight.
type measured struct {
	name   corev1.ResourceName
	weight int64
}

// usage is what is requested and allocatable of a resource on a node.
type usage struct{ requested, allocatable, weight int64 }

// podRequest is the pod's request of each measured resource. The cycle state keeps it from PreScore to Score.
type podRequest []int64

// Clone implements framework.StateData; the value never changes.
func (a podRequest) Clone() framework.StateData { return a }

// measure converts the resources of a configuration. The default is CPU and memory with equal weight.
func measure(path *field.Path, specs []configv1.ResourceSpec) ([]measured, field.ErrorList) {
	if len(specs) == 0 {
		return []measured{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}, nil
	}
	var errs field.ErrorList
	out := make([]measured, 0, len(specs))
	seen := map[string]bool{}
	for i, s := range specs {
		if s.Weight == 0 {
			s.Weight = 1
		}
		if s.Weight < 1 || s.Weight > 100 {
			errs = append(errs, field.Invalid(path.Index(i).Child("weight"), s.Weight, fmt.Sprintf("resource weight of %s not in valid range [1, 100]", s.Name)))
		}
		if s.Name == "" || seen[s.Name] {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), s.Name, "empty or repeated"))
		}
		seen[s.Name] = true
		out = append(out, measured{corev1.ResourceName(s.Name), s.Weight})
	}
	return out, errs
}

// assumed are the requests that scores assume for a container without requests, so that such pods are spread, too.
var assumed = corev1.ResourceList{
	corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	corev1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
}

// requestOf returns the pod's request of each resource. With assume, a container without CPU or memory requests counts
// with the assumed ones, unless the pod has pod-level requests.
func requestOf(pod *corev1.Pod, resources []measured, assume bool) podRequest {
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	plain := resourcehelper.PodRequests(pod, opts)
	list := plain
	if assume {
		opts.NonMissingContainerRequests = assumed
		list = resourcehelper.PodRequests(pod, opts)
	}
	out := make(podRequest, len(resources))
	for i, r := range resources {
		q := list[r.name]
		if r.name == corev1.ResourceCPU {
			out[i] = q.MilliValue()
		} else {
			out[i] = q.Value()
		}
	}
	return out
}

// usageOn returns the usage of each resource on the node with the pod, and without it. It leaves out resources that the
// node does not have, and extended resources that the pod does not request. With assume, the requests on the node
// include the assumed ones.
func usageOn(node framework.NodeInfo, pod podRequest, resources []measured, assume bool, with, without []usage) ([]usage, []usage) {
	with, without = with[:0], without[:0]
	for i, r := range resources {
		there, taken := amounts(node, r.name, assume)
		if there == 0 || pod[i] == 0 && scheduler.ExtendedResource(r.name) {
			continue
		}
		with = append(with, usage{taken + pod[i], there, r.weight})
		without = append(without, usage{taken, there, r.weight})
	}
	return with, without
}

func amounts(node framework.NodeInfo, name corev1.ResourceName, assume bool) (allocatable, requested int64) {
	have, use := node.GetAllocatable(), node.GetRequested()
	switch name {
	case corev1.ResourceCPU:
		if assume {
			use = node.GetNonZeroRequested()
		}
		return have.GetMilliCPU(), use.GetMilliCPU()
	case corev1.ResourceMemory:
		if assume {
			use = node.GetNonZeroRequested()
		}
		return have.GetMemory(), use.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return have.GetEphemeralStorage(), use.GetEphemeralStorage()
	}
	return have.GetScalarResources()[name], use.GetScalarResources()[name]
}

// requestsSignature is the part of a pod that the resource plugins use: the requests of each container and of the pod.
// A pod with started containers is not signed: its requests depend on a resize in progress.
func requestsSignature(pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) > 0 || pod.Status.Resources != nil {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with container statuses are not signed")
	}
	b := make([]byte, 0, 128)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := "init"
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			kind = "sidecar"
		}
		b = appendRequests(b, kind, c.Resources.Requests)
	}
	for i := range pod.Spec.Containers {
		b = appendRequests(b, "container", pod.Spec.Containers[i].Resources.Requests)
	}
	b = appendRequests(b, "overhead", pod.Spec.Overhead)
	if pod.Spec.Resources != nil {
		b = appendRequests(b, "pod", pod.Spec.Resources.Requests)
	}
	return signature(framework.ResourcesSignerName, string(b))
}

func appendRequests(b []byte, kind string, list corev1.ResourceList) []byte {
	b = append(append(b, ';'), kind...)
	var held [8]string
	names := held[:0]
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		q := list[corev1.ResourceName(name)]
		v := q.Value()
		if name == string(corev1.ResourceCPU) {
			v = q.MilliValue()
		}
		b = append(append(append(b, ' '), name...), '=')
		b = strconv.AppendInt(b, v, 10)
	}
	return b
}
