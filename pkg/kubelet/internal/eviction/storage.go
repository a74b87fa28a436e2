package eviction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"
)

// LimitsStorage reports whether a pod limits the size of an emptyDir or the ephemeral storage of its containers.
func LimitsStorage(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if e := pod.Spec.Volumes[i].EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
			return true
		}
	}
	_, ok := podresources.PodLimits(pod, podresources.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	return ok
}

// StorageExceeded returns the message of the eviction of a pod that uses more local storage than one of its limits, "" for other pods.
func StorageExceeded(pod *corev1.Pod, used Pod) string {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if bytes(used.Volumes[v.Name].Bytes).Cmp(*v.EmptyDir.SizeLimit) > 0 {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	if limit, ok := podresources.PodLimits(pod, podresources.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; ok {
		if bytes(used.ephemeral(pod)).Cmp(limit) > 0 {
			return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
		}
	}
	for _, c := range used.Containers {
		spec := appContainer(pod, c.Name)
		if spec == nil {
			continue
		}
		if limit := spec.Resources.Limits.StorageEphemeral(); !limit.IsZero() && limit.Cmp(*bytes(c.Rootfs.Bytes + c.Logs.Bytes)) < 0 {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return ""
}

// ephemeral returns what the pod uses of its ephemeral storage: its containers, their logs, and its local volumes without the machine's
// directories.
func (p Pod) ephemeral(pod *corev1.Pod) int64 {
	sum := int64(0)
	for _, c := range p.Containers {
		sum += c.Rootfs.Bytes + c.Logs.Bytes
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; localVolume(v) {
			sum += p.Volumes[v.Name].Bytes
		}
	}
	return sum
}

func appContainer(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}
