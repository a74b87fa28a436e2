package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// limitRangerAnnotation lists the defaults that were set on a pod.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// limitRanger sets default requests and limits from the namespace's LimitRanges, and rejects pods and claims outside their
// bounds.
type limitRanger struct {
	ranges *derived[map[string][]*corev1.LimitRange]
}

func newLimitRanger(r stage.Reader) limitRanger {
	return limitRanger{derive(r, limitRanges, byNamespace[*corev1.LimitRange])}
}

func (limitRanger) Name() string { return "LimitRanger" }

func (l limitRanger) Mutate(ctx context.Context, a *stage.Admission) error {
	ranges, err := l.of(ctx, a)
	if err != nil || len(ranges) == 0 {
		return err
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	for _, r := range ranges {
		fillLimits(pod, r)
	}
	return nil
}

func (l limitRanger) Validate(ctx context.Context, a *stage.Admission) error {
	if a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	ranges, err := l.of(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if err := withinRange(a.Object, r); err != nil {
			return Forbidden(a, err)
		}
	}
	return nil
}

// of returns the LimitRanges that apply to the request.
func (l limitRanger) of(ctx context.Context, a *stage.Admission) ([]*corev1.LimitRange, error) {
	if !limitable(a) || a.Old != nil && a.Old.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	all, ok, err := l.ranges.get(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if !ok {
		return nil, nil
	}
	return all[a.Namespace], nil
}

// limitable reports whether LimitRanges apply to a request. Updates of a pod don't count, since only its resize changes resources.
func limitable(a *stage.Admission) bool {
	switch a.GVR.GroupResource() {
	case pods:
		return a.Subresource == "" && a.Operation == stage.Create || a.Subresource == "resize" && a.Operation == stage.Update
	case claims:
		return a.Subresource == ""
	}
	return false
}

// fillLimits sets the default requests and limits of a pod's containers.
func fillLimits(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range r.Spec.Limits {
		if item := &r.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var notes []string
	each := func(what string, containers []corev1.Container) {
		for i := range containers {
			c := &containers[i]
			if c.Resources.Limits == nil {
				c.Resources.Limits = corev1.ResourceList{}
			}
			if c.Resources.Requests == nil {
				c.Resources.Requests = corev1.ResourceList{}
			}
			setLimits, setRequests := fill(c.Resources.Limits, limits), fill(c.Resources.Requests, requests)
			if len(setRequests) > 0 {
				notes = append(notes, strings.Join(setRequests, ", ")+fmt.Sprintf(" request for %s %s", what, c.Name))
			}
			if len(setLimits) > 0 {
				notes = append(notes, strings.Join(setLimits, ", ")+fmt.Sprintf(" limit for %s %s", what, c.Name))
			}
		}
	}
	each("container", pod.Spec.Containers)
	each("init container", pod.Spec.InitContainers)
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

// fill adds the missing resources to list and returns their names, sorted.
func fill(list, from corev1.ResourceList) []string {
	var names []string
	for name, q := range from {
		if _, ok := list[name]; !ok {
			list[name] = q.DeepCopy()
			names = append(names, string(name))
		}
	}
	sort.Strings(names)
	return names
}

// withinRange checks an object against a LimitRange.
func withinRange(obj any, r *corev1.LimitRange) error {
	var errs []error
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		switch o := obj.(type) {
		case *corev1.PersistentVolumeClaim:
			if item.Type == corev1.LimitTypePersistentVolumeClaim {
				errs = append(errs, requirements{item.Type, o.Spec.Resources.Requests, nil}.claim(item)...)
			}
		case *corev1.Pod:
			errs = append(errs, podWithin(o, item)...)
		}
	}
	return utilerrors.NewAggregate(errs)
}

func podWithin(pod *corev1.Pod, item *corev1.LimitRangeItem) []error {
	var errs []error
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				errs = append(errs, requirements{item.Type, list[i].Resources.Requests, list[i].Resources.Limits}.within(item)...)
			}
		}
	case corev1.LimitTypePod:
		return podRequirements(pod).within(item)
	}
	return errs
}

// podRequirements returns the requests and limits of a pod: the sum of its containers, overridden by pod-level resources. The overhead
// of its runtime class does not count.
func podRequirements(pod *corev1.Pod) requirements {
	containers := resourcehelper.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true}
	a := requirements{corev1.LimitTypePod, resourcehelper.PodRequests(pod, containers), resourcehelper.PodLimits(pod, containers)}
	if pod.Spec.Resources == nil {
		return a
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := pod.Spec.Resources.Requests[name]; ok {
			a.requests[name] = q
		}
		if q, ok := pod.Spec.Resources.Limits[name]; ok {
			a.limits[name] = q
		}
	}
	return a
}

// requirements holds the requests and limits of a container, pod or claim.
type requirements struct {
	kind             corev1.LimitType
	requests, limits corev1.ResourceList
}

func (a requirements) within(item *corev1.LimitRangeItem) []error {
	errs := each(item.Min, a.min)
	errs = append(errs, each(item.Max, a.max)...)
	return append(errs, each(item.MaxLimitRequestRatio, a.ratio)...)
}

func (a requirements) claim(item *corev1.LimitRangeItem) []error {
	return append(each(item.Min, a.min), each(item.Max, a.maxRequest)...)
}

// each calls check for each resource of a list, sorted by name.
func each(list corev1.ResourceList, check func(corev1.ResourceName, resource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := check(name, list[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (a requirements) min(name corev1.ResourceName, least resource.Quantity) error {
	request, requested := a.requests[name]
	limit, limited := a.limits[name]
	r, l, bound := comparable3(request, limit, least)
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, a.kind, least.String())
	case r < bound:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, a.kind, least.String(), request.String())
	case limited && l < bound:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, a.kind, least.String(), limit.String())
	}
	return nil
}

func (a requirements) max(name corev1.ResourceName, most resource.Quantity) error {
	request, requested := a.requests[name]
	limit, limited := a.limits[name]
	r, l, bound := comparable3(request, limit, most)
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, a.kind, most.String())
	case l > bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, a.kind, most.String(), limit.String())
	case requested && r > bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, a.kind, most.String(), request.String())
	}
	return nil
}

func (a requirements) maxRequest(name corev1.ResourceName, most resource.Quantity) error {
	request, requested := a.requests[name]
	r, _, bound := comparable3(request, resource.Quantity{}, most)
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, a.kind, most.String())
	case r > bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, a.kind, most.String(), request.String())
	}
	return nil
}

func (a requirements) ratio(name corev1.ResourceName, most resource.Quantity) error {
	r, l, _ := comparable3(a.requests[name], a.limits[name], most)
	switch {
	case r == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, a.kind, most.String())
	case l == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, a.kind, most.String())
	}
	observed := float64(l) / float64(r)
	shown, bound := observed, float64(most.Value())
	if most.Value() <= resource.MaxMilliValue {
		observed, bound = observed*1000, float64(most.MilliValue())
	}
	if observed > bound {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, a.kind, most.String(), shown)
	}
	return nil
}

// comparable3 returns three quantities in one unit: milli-units if all are small enough.
func comparable3(request, limit, bound resource.Quantity) (r, l, b int64) {
	r, l, b = request.Value(), limit.Value(), bound.Value()
	if r <= resource.MaxMilliValue && l <= resource.MaxMilliValue && b <= resource.MaxMilliValue {
		r, l, b = request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return r, l, b
}
