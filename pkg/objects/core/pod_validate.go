package core

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

func validatePod(p, old *corev1.Pod) field.ErrorList {
	if old != nil {
		return validatePodUpdate(p, old)
	}
	errs := check.Meta(p, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, podspec.ValidatePod(p, nil, check.Metadata, check.Spec)...)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(check.Spec.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) != 0 {
		errs = append(errs, field.Forbidden(check.Spec.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, podspec.AnnotationsMatch(p.Annotations, &p.Spec, check.Spec)...)
}

// whole checks an updated pod like a new one.
func whole(p, old *corev1.Pod) field.ErrorList {
	errs := check.MetaUpdate(p, old)
	errs = append(errs, check.Meta(p, true, apivalidation.NameIsDNSSubdomain)...)
	return append(errs, podspec.ValidatePod(p, old, check.Metadata, check.Spec)...)
}

func validatePodUpdate(p, old *corev1.Pod) field.ErrorList {
	errs := append(whole(p, old), annotationChanges(p, old)...)
	wrong, stop := containerChanges(p.Spec.Containers, old.Spec.Containers, check.Spec.Child("containers"))
	errs = append(errs, wrong...)
	if stop {
		return errs
	}
	wrong, stop = containerChanges(p.Spec.InitContainers, old.Spec.InitContainers, check.Spec.Child("initContainers"))
	errs = append(errs, wrong...)
	if stop {
		return errs
	}
	wrong, stop = deadlineChange(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, check.Spec.Child("activeDeadlineSeconds"))
	errs = append(errs, wrong...)
	if stop {
		return errs
	}
	errs = append(errs, tolerationChanges(p.Spec.Tolerations, old.Spec.Tolerations, check.Spec.Child("tolerations"))...)
	errs = append(errs, gateChanges(p.Spec.SchedulingGates, old.Spec.SchedulingGates, check.Spec.Child("schedulingGates"))...)
	if check.Same(&p.Spec, &old.Spec) {
		return errs
	}
	return append(errs, otherChanges(p, old)...)
}

// annotationChanges rejects changes of immutable annotations.
func annotationChanges(p, old *corev1.Pod) field.ErrorList {
	if len(p.Annotations) == 0 && len(old.Annotations) == 0 {
		return nil
	}
	at := check.Metadata.Child("annotations")
	var errs field.ErrorList
	for _, key := range slices.Sorted(keysOfBoth(p.Annotations, old.Annotations)) {
		was, had := old.Annotations[key]
		now, has := p.Annotations[key]
		if had && has && was == now {
			continue
		}
		armor := strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		switch mirror := key == corev1.MirrorPodAnnotationKey; {
		case armor && had:
			errs = append(errs, field.Forbidden(at.Key(key), "may not remove or update AppArmor annotations"))
		case armor:
			errs = append(errs, field.Forbidden(at.Key(key), "may not add AppArmor annotations"))
		case mirror && had:
			errs = append(errs, field.Forbidden(at.Key(key), "may not remove or update mirror pod annotation"))
		case mirror:
			errs = append(errs, field.Forbidden(at.Key(key), "may not add mirror pod annotation"))
		}
	}
	return append(errs, podspec.Annotations(p.Annotations, &p.Spec, at)...)
}

func keysOfBoth(a, b map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range a {
			if !yield(key) {
				return
			}
		}
		for key := range b {
			if _, twice := a[key]; !twice && !yield(key) {
				return
			}
		}
	}
}

func containerChanges(now, old []corev1.Container, at *field.Path) (errs field.ErrorList, stop bool) {
	if len(now) != len(old) {
		return field.ErrorList{field.Forbidden(at, "pod updates may not add or remove containers")}, true
	}
	for i := range now {
		image := now[i].Image
		if image == "" {
			errs = append(errs, field.Required(at.Index(i).Child("image"), ""))
		}
		if len(strings.TrimSpace(image)) != len(image) {
			errs = append(errs, field.Invalid(at.Index(i).Child("image"), image, "must not have leading or trailing whitespace"))
		}
	}
	return errs, false
}

// deadlineChange rejects a deadline that is removed or increased.
func deadlineChange(now, old *int64, at *field.Path) (errs field.ErrorList, stop bool) {
	switch {
	case now == nil && old != nil:
		return field.ErrorList{field.Invalid(at, now, "must not update from a positive integer to nil value")}, false
	case now == nil:
		return nil, false
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, *now, utilvalidation.InclusiveRangeError(0, math.MaxInt32))}, true
	case old != nil && *old < *now:
		return field.ErrorList{field.Invalid(at, *now, "must be less than or equal to previous value")}, true
	}
	return nil, false
}

// tolerationChanges rejects changes of tolerations other than additions and of tolerationSeconds.
func tolerationChanges(now, old []corev1.Toleration, at *field.Path) field.ErrorList {
	var kept check.Seen[corev1.Toleration] // without tolerationSeconds
	for _, t := range now {
		t.TolerationSeconds = nil
		kept.Again(t)
	}
	for _, t := range old {
		t.TolerationSeconds = nil
		if !kept.Has(t) {
			return field.ErrorList{field.Forbidden(at, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return podspec.Tolerations(now, at)
}

func gateChanges(now, old []corev1.PodSchedulingGate, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	had := check.SeenOf(old)
	for i := range now {
		if !had.Has(now[i]) {
			errs = append(errs, field.Forbidden(at.Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+now[i].Name+"'"))
		}
	}
	return errs
}

const updatable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// otherChanges rejects all changes except those that are checked elsewhere, which it reverts before it compares.
func otherChanges(p, old *corev1.Pod) field.ErrorList {
	now, was := p.Spec.DeepCopy(), &old.Spec
	for i := range now.Containers {
		now.Containers[i].Image = was.Containers[i].Image
	}
	for i := range now.InitContainers {
		now.InitContainers[i].Image = was.InitContainers[i].Image
	}
	now.ActiveDeadlineSeconds = was.ActiveDeadlineSeconds
	now.SchedulingGates = was.SchedulingGates
	now.Tolerations = was.Tolerations
	if grace := now.TerminationGracePeriodSeconds; grace != nil && *grace == 1 && was.TerminationGracePeriodSeconds != nil && *was.TerminationGracePeriodSeconds < 0 {
		now.TerminationGracePeriodSeconds = was.TerminationGracePeriodSeconds
	}
	var errs field.ErrorList
	if len(was.SchedulingGates) > 0 {
		errs = gatedChanges(now, was)
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(check.Spec, updatable+"\n"+podspec.Diff(was, now)))
	}
	return errs
}

// gatedChanges accepts a narrower node selection for a pod with scheduling gates, and reverts it in now.
func gatedChanges(now, was *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for key, value := range was.NodeSelector {
		if v, ok := now.NodeSelector[key]; !ok || v != value {
			errs = append(errs, field.Invalid(check.Spec.Child("nodeSelector"), now.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	now.NodeSelector = was.NodeSelector
	var before, after *corev1.NodeAffinity
	if was.Affinity != nil {
		before = was.Affinity.NodeAffinity
	}
	if now.Affinity != nil {
		after = now.Affinity.NodeAffinity
	}
	if equality.Semantic.DeepEqual(before, after) {
		return errs
	}
	errs = append(errs, nodeAffinityChanges(after, before, check.Spec.Child("affinity", "nodeAffinity"))...)
	switch {
	case now.Affinity == nil:
		now.Affinity = &corev1.Affinity{NodeAffinity: before}
	case was.Affinity == nil && now.Affinity.PodAffinity == nil && now.Affinity.PodAntiAffinity == nil:
		now.Affinity = nil
	default:
		now.Affinity.NodeAffinity = before
	}
	return errs
}

func nodeAffinityChanges(now, was *corev1.NodeAffinity, at *field.Path) field.ErrorList {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	before := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var after []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		after = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	at = at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(before) > 0 && len(before) != len(after) {
		return field.ErrorList{field.Invalid(at, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range before {
		if !extends(after[i].MatchExpressions, before[i].MatchExpressions) || !extends(after[i].MatchFields, before[i].MatchFields) ||
			len(before[i].MatchExpressions)+len(before[i].MatchFields) == 0 && len(after[i].MatchExpressions)+len(after[i].MatchFields) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), after[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// extends reports whether was is a prefix of now.
func extends(now, was []corev1.NodeSelectorRequirement) bool {
	return len(now) >= len(was) && equality.Semantic.DeepEqual(now[:len(was)], was[:len(was):len(was)])
}
