package schedplugins

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
)

// measured is one resource that a score looks at.
type measured struct {
	name   corev1.ResourceName
	weight int64
}

// usage is a resource on a node once the pod is there: what is asked for, and what there is.
type usage struct{ requested, allocatable, weight int64 }

// asked is what a pod adds to each measured resource. It is kept from PreScore to Score.
type asked []int64

// Clone is framework.StateData's; nothing changes it.
func (a asked) Clone() framework.StateData { return a }

// measure turns the resources of a configuration into what a score looks at. Without any it is CPU and memory alike.
func measure(specs []configv1.ResourceSpec) ([]measured, error) {
	if len(specs) == 0 {
		return []measured{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}, nil
	}
	var errs []error
	out := make([]measured, 0, len(specs))
	seen := map[string]bool{}
	for i, s := range specs {
		if s.Weight == 0 {
			s.Weight = 1
		}
		if s.Weight < 1 || s.Weight > 100 {
			errs = append(errs, fmt.Errorf("resources[%d].weight: Invalid value: %d: resource weight of %s not in valid range [1, 100]", i, s.Weight, s.Name))
		}
		if s.Name == "" || seen[s.Name] {
			errs = append(errs, fmt.Errorf("resources[%d].name: Invalid value: %q: empty or repeated", i, s.Name))
		}
		seen[s.Name] = true
		out = append(out, measured{corev1.ResourceName(s.Name), s.Weight})
	}
	return out, errors.Join(errs...)
}

// What a container counts as when it requests none, in scores that spread.
var assumed = corev1.ResourceList{
	corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	corev1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
}

// askedOf returns what a pod asks of each resource. With assume, containers that ask for no CPU or memory count as
// asking for a little, unless the pod as a whole says what it asks for.
func askedOf(pod *corev1.Pod, resources []measured, assume bool) asked {
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	plain := resourcehelper.PodRequests(pod, opts)
	list := plain
	if assume {
		opts.NonMissingContainerRequests = assumed
		list = resourcehelper.PodRequests(pod, opts)
	}
	out := make(asked, len(resources))
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

// usageOn returns the node's usage of each resource with the pod on it, and without. Resources that the node has not, or
// that are extended and the pod does not ask for, are left out. With assume, requests are those that spread.
func usageOn(node framework.NodeInfo, pod asked, resources []measured, assume bool, with, without []usage) ([]usage, []usage) {
	with, without = with[:0], without[:0]
	for i, r := range resources {
		there, taken := amounts(node, r.name, assume)
		if there == 0 || pod[i] == 0 && extended(r.name) {
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

// extended reports whether a resource is one that Kubernetes itself does not know.
func extended(name corev1.ResourceName) bool {
	n := string(name)
	return strings.Contains(n, "/") && !strings.Contains(n, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(n, corev1.DefaultResourceRequestsPrefix)
}

// requestsSignature is what of a pod the resource plugins depend on: what each container and the pod as a whole ask for.
// Pods with containers that were started already, whose requests depend on a resize under way, are not signed.
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
