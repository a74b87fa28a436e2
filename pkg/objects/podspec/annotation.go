package podspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// Annotations checks the annotations that pods interpret.
func Annotations(annotations map[string]string, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if !anyChecked(annotations) {
		return nil
	}
	var errs field.ErrorList
	if value, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(at.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if value := annotations[corev1.TolerationsAnnotationKey]; value != "" {
		errs = append(errs, annotatedTolerations(value, at)...)
	}
	if value, ok := annotations[corev1.PodDeletionCost]; ok && !isDeletionCost(value) {
		errs = append(errs, field.Invalid(at.Key(corev1.PodDeletionCost), value, "must be a 32bit integer"))
	}
	if value, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		errs = append(errs, annotatedSeccomp(value, at.Child(corev1.SeccompPodAnnotationKey))...)
	}
	var names *check.Seen[string]
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		switch {
		case strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			errs = append(errs, annotatedSeccomp(annotations[key], at.Child(key))...)
		case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
			if names == nil {
				names = &check.Seen[string]{}
				eachContainer(s, nil, func(c *corev1.Container, _ *field.Path) { names.Again(c.Name) })
			}
			errs = append(errs, annotatedAppArmor(key, annotations[key], names, at)...)
		}
	}
	return errs
}

// anyChecked reports whether one of the annotations is checked. Few pods have such annotations.
func anyChecked(annotations map[string]string) bool {
	for key := range annotations {
		switch key {
		case corev1.MirrorPodAnnotationKey, corev1.TolerationsAnnotationKey, corev1.PodDeletionCost, corev1.SeccompPodAnnotationKey:
			return true
		}
		if strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) ||
			strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			return true
		}
	}
	return false
}

func annotatedTolerations(value string, at *field.Path) field.ErrorList {
	var list []corev1.Toleration
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return field.ErrorList{field.Invalid(at, corev1.TolerationsAnnotationKey, err.Error())}
	}
	return Tolerations(list, at.Child(corev1.TolerationsAnnotationKey))
}

// isDeletionCost accepts a number without plus sign and leading zeros.
func isDeletionCost(value string) bool {
	n, err := strconv.ParseInt(value, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == value
}

func annotatedSeccomp(value string, at *field.Path) field.ErrorList {
	switch value {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	if path, ok := strings.CutPrefix(value, corev1.SeccompLocalhostProfileNamePrefix); ok {
		return volume.Descending(path, at)
	}
	return field.ErrorList{field.Invalid(at, value, "must be a valid seccomp profile")}
}

// annotatedAppArmor checks the annotation with the AppArmor profile of a container, which must be one of the pod's.
func annotatedAppArmor(key, value string, containers *check.Seen[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	name := strings.TrimPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
	if !containers.Has(name) {
		errs = append(errs, field.Invalid(at.Key(key), name, "container not found"))
	}
	switch {
	case value == "", value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined,
		strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix):
	default:
		errs = append(errs, field.Invalid(at.Key(key), value, fmt.Sprintf("invalid AppArmor profile name: %q", value)))
	}
	return errs
}

// AnnotationsMatch checks that deprecated annotations agree with the fields that replaced them.
func AnnotationsMatch(annotations map[string]string, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if !anyChecked(annotations) {
		return nil
	}
	var errs field.ErrorList
	var podArmor *corev1.AppArmorProfile
	if sc := s.SecurityContext; sc != nil {
		podArmor = sc.AppArmorProfile
		if value, ok := annotations[corev1.SeccompPodAnnotationKey]; ok && sc.SeccompProfile != nil {
			errs = append(errs, seccompMatches(value, sc.SeccompProfile, at.Child("securityContext", "seccompProfile"))...)
		}
	}
	eachContainer(s, at, func(c *corev1.Container, idx *field.Path) {
		value, ok := annotations[corev1.SeccompContainerAnnotationKeyPrefix+c.Name]
		if ok && c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
			errs = append(errs, seccompMatches(value, c.SecurityContext.SeccompProfile, idx.Child("securityContext", "seccompProfile"))...)
		}
	})
	if s.OS != nil && s.OS.Name == corev1.Windows {
		return errs
	}
	eachContainer(s, at, func(c *corev1.Container, idx *field.Path) {
		profile := podArmor
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		value, ok := annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
		if ok && profile != nil {
			errs = append(errs, appArmorMatches(value, profile, idx.Child("securityContext", "appArmorProfile"))...)
		}
	})
	return errs
}

func seccompMatches(value string, p *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	ok := true
	switch p.Type {
	case corev1.SeccompProfileTypeUnconfined:
		ok = value == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		ok = value == corev1.SeccompProfileRuntimeDefault || value == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		path, local := strings.CutPrefix(value, corev1.SeccompLocalhostProfileNamePrefix)
		if local && (p.LocalhostProfile == nil || path != *p.LocalhostProfile) {
			return field.ErrorList{field.Forbidden(at.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
		}
		ok = local
	}
	if ok {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("type"), "seccomp type in annotation and field must match")}
}

func appArmorMatches(value string, p *corev1.AppArmorProfile, at *field.Path) field.ErrorList {
	ok := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		ok = value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		ok = value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		name, local := strings.CutPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		if local && (p.LocalhostProfile == nil || name != *p.LocalhostProfile) {
			return field.ErrorList{field.Forbidden(at.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
		}
		ok = local
	}
	if ok {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("type"), "apparmor type in annotation and field must match")}
}
