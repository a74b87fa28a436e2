// Package podref finds the objects that a pod's specification refers to: its node may read them, and a mirror pod must not
// refer to any.
package podref

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Containers yields the init, main and ephemeral containers of a pod, the last as plain containers.
func Containers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if !yield(&pod.Spec.InitContainers[i]) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

// Secrets yields the names of the secrets that a pod refers to. A name can repeat.
func Secrets(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		emit := func(name string) bool { return name == "" || yield(name) }
		for _, r := range pod.Spec.ImagePullSecrets {
			if !emit(r.Name) {
				return
			}
		}
		for c := range Containers(pod) {
			for _, e := range c.EnvFrom {
				if e.SecretRef != nil && !emit(e.SecretRef.Name) {
					return
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !emit(e.ValueFrom.SecretKeyRef.Name) {
					return
				}
			}
		}
		for i := range pod.Spec.Volumes {
			for _, name := range volumeSecrets(&pod.Spec.Volumes[i].VolumeSource) {
				if !emit(name) {
					return
				}
			}
		}
	}
}

func volumeSecrets(v *corev1.VolumeSource) []string {
	local := func(r *corev1.LocalObjectReference) []string {
		if r == nil {
			return nil
		}
		return []string{r.Name}
	}
	switch {
	case v.Secret != nil:
		return []string{v.Secret.SecretName}
	case v.Projected != nil:
		var names []string
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
		return names
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		return []string{v.AzureFile.SecretName}
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	}
	return nil
}

// ConfigMaps yields the names of the config maps that a pod refers to. A name can repeat.
func ConfigMaps(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := range Containers(pod) {
			for _, e := range c.EnvFrom {
				if e.ConfigMapRef != nil && !yield(e.ConfigMapRef.Name) {
					return
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && !yield(e.ValueFrom.ConfigMapKeyRef.Name) {
					return
				}
			}
		}
		for _, v := range pod.Spec.Volumes {
			if v.ConfigMap != nil && !yield(v.ConfigMap.Name) {
				return
			}
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && !yield(s.ConfigMap.Name) {
					return
				}
			}
		}
	}
}

// Claims yields the names of the persistent volume claims that a pod mounts.
func Claims(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				if !yield(v.PersistentVolumeClaim.ClaimName) {
					return
				}
			case v.Ephemeral != nil:
				if !yield(pod.Name + "-" + v.Name) {
					return
				}
			}
		}
	}
}

// ResourceClaims yields the names of the resource claims that a pod refers to.
func ResourceClaims(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, c := range pod.Spec.ResourceClaims {
			if c.ResourceClaimName != nil && !yield(*c.ResourceClaimName) {
				return
			}
		}
		for _, c := range pod.Status.ResourceClaimStatuses {
			if c.ResourceClaimName != nil && !yield(*c.ResourceClaimName) {
				return
			}
		}
		if c := pod.Status.ExtendedResourceClaimStatus; c != nil && c.ResourceClaimName != "" {
			yield(c.ResourceClaimName)
		}
	}
}

// Has reports whether names yields name.
func Has(names iter.Seq[string], name string) bool {
	for n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// Any reports whether names yields a name.
func Any(names iter.Seq[string]) bool {
	for range names {
		return true
	}
	return false
}
