package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	library "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

var podEvaluator = Evaluator{
	names: append([]corev1.ResourceName{
		countOf(schema.GroupResource{Resource: "pods"}), corev1.ResourcePods,
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
	}, demanded...),
	matching: func(name corev1.ResourceName) bool {
		s := string(name)
		requested, ok := strings.CutPrefix(s, corev1.DefaultResourceRequestsPrefix)
		return strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceRequestsHugePagesPrefix) ||
			ok && (!podspec.IsNative(name) || isDevice(corev1.ResourceName(requested)))
	},
	inScope: podInScope,
	missing: podMissing,
	usage:   podUsage,
	changed: podChanged,
}

// podChanged reports whether an update resizes a pod, or sets a deadline, which changes its scopes.
func podChanged(sub string, obj, old objects.Object) bool {
	now, ok := obj.(*corev1.Pod)
	was, had := old.(*corev1.Pod)
	return sub == "resize" || sub == "" && ok && had && isTerminating(now) != isTerminating(was)
}

// demanded are the resources that every container must set if a quota limits them.
var demanded = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func podUsage(obj objects.Object, now time.Time) corev1.ResourceList {
	pod := obj.(*corev1.Pod)
	out := corev1.ResourceList{countOf(schema.GroupResource{Resource: "pods"}): one}
	if !lives(pod, now) {
		return out
	}
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true} // include resources that a pending resize has not released
	return library.Add(out, compute(resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts)))
}

// lives reports whether a pod counts: it is not terminated, and its deletion grace period is not over.
func lives(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return true
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return !now.After(pod.DeletionTimestamp.Add(grace))
}

// shortNames are the resources whose requests have two names in quotas: cpu and requests.cpu.
var shortNames = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// isDevice reports whether a resource counts the devices of a class.
func isDevice(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

// compute returns requests and limits under their names in quotas.
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: one}
	for _, name := range shortNames {
		if q, ok := requests[name]; ok {
			out[name], out[corev1.DefaultResourceRequestsPrefix+name] = q, q
		}
		if q, ok := limits[name]; ok {
			out["limits."+name] = q
		}
	}
	for name, q := range requests {
		switch {
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			out[name], out[corev1.DefaultResourceRequestsPrefix+name] = q, q
		case podspec.IsExtended(name), isDevice(name):
			out[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	return out
}

// podMissing returns an error with the containers that do not set a required resource, unless pod-level resources do.
func podMissing(obj objects.Object, required []corev1.ResourceName) error {
	pod := obj.(*corev1.Pod)
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			has := compute(list[i].Resources.Requests, list[i].Resources.Limits)
			for _, name := range required {
				if _, ok := has[name]; !ok && slices.Contains(demanded, name) {
					missing[name] = append(missing[name], list[i].Name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		containers := missing[name]
		slices.Sort(containers)
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Compact(containers), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

func podInScope(obj objects.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	pod := obj.(*corev1.Pod)
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return isTerminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !isTerminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return podspec.QOS(&pod.Spec) == corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return podspec.QOS(&pod.Spec) != corev1.PodQOSBestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		if s.Operator == corev1.ScopeSelectorOpExists {
			return pod.Spec.PriorityClassName != "", nil
		}
		return selects(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity), nil
	}
	return false, nil
}

// isTerminating reports whether a pod has an activeDeadlineSeconds.
func isTerminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// selects matches a value ("": unset) against a scope selector.
func selects(s corev1.ScopedResourceSelectorRequirement, value string) (bool, error) {
	operators := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	op, ok := operators[s.Operator]
	if !ok {
		return false, fmt.Errorf("failed to parse and convert selector: %q is not a valid scope selector operator", s.Operator)
	}
	r, err := labels.NewRequirement(string(s.ScopeName), op, s.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	set := labels.Set{}
	if value != "" {
		set[string(s.ScopeName)] = value
	}
	return r.Matches(set), nil
}

func crossesNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, p := range preferred {
			terms = append(terms, p.PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
