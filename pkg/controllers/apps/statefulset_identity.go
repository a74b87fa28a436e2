package apps

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// parentAndOrdinal returns the set and the ordinal that a pod's name specifies: "" for a name without an ordinal, and -1 for an ordinal
// that is out of range.
func parentAndOrdinal(pod string) (set string, ordinal int) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 || i+1 == len(pod) || strings.Trim(pod[i+1:], "0123456789") != "" {
		return "", -1
	}
	n, err := strconv.ParseInt(pod[i+1:], 10, 32)
	if err != nil {
		return pod[:i], -1
	}
	return pod[:i], int(n)
}

func ordinalOf(p *corev1.Pod) int {
	_, n := parentAndOrdinal(p.Name)
	return n
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func claimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return template + "-" + podName(set, ordinal)
}

func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// inOrdinalRange reports whether the set, with its number of replicas, has the ordinal of a pod.
func inOrdinalRange(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	i := ordinalOf(p) - firstOrdinal(set)
	return i >= 0 && i < int(*set.Spec.Replicas)
}

// identityMatches reports whether a pod has the name and the label of its ordinal in the set.
func identityMatches(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	n := ordinalOf(p)
	return n >= 0 && p.Name == podName(set, n) && p.Namespace == set.Namespace && p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name
}

// setIdentity sets the labels with a pod's name and ordinal.
func setIdentity(set *appsv1.StatefulSet, p *corev1.Pod) {
	n := ordinalOf(p)
	p.Name, p.Namespace = podName(set, n), set.Namespace
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel] = p.Name
	p.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
}

// storageMatches reports whether a pod has a volume with the claim of each template.
func storageMatches(set *appsv1.StatefulSet, p *corev1.Pod) bool {
	n := ordinalOf(p)
	if n < 0 {
		return false
	}
	claims := map[string]string{} // by name of the volume
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	for _, t := range set.Spec.VolumeClaimTemplates {
		if claims[t.Name] != claimName(set, t.Name, n) {
			return false
		}
	}
	return true
}

// setStorage adds a volume for the claim of each template to a pod. It replaces other volumes of these names.
func setStorage(set *appsv1.StatefulSet, p *corev1.Pod) {
	var volumes []corev1.Volume
	for _, t := range set.Spec.VolumeClaimTemplates {
		source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t.Name, ordinalOf(p))}
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
	}
	others := slices.DeleteFunc(slices.Clone(p.Spec.Volumes), func(v corev1.Volume) bool {
		return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool { return t.Name == v.Name })
	})
	p.Spec.Volumes = append(volumes, others...)
}

// newStatefulPod returns the pod of an ordinal from the template of one of the set's revisions.
func newStatefulPod(set *appsv1.StatefulSet, revision string, ordinal int) *corev1.Pod {
	p := controller.NewPod(&set.Spec.Template, set, statefulSetKind)
	p.Name = podName(set, ordinal)
	setIdentity(set, p)
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, set.Spec.ServiceName
	setStorage(set, p)
	p.Labels[appsv1.StatefulSetRevisionLabel] = revision
	return p
}

// claimsFor returns the PersistentVolumeClaims of a pod, in the order of their templates.
func claimsFor(set *appsv1.StatefulSet, p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		c.Name, c.Namespace = claimName(set, c.Name, ordinalOf(p)), set.Namespace
		for k, v := range set.Spec.Selector.MatchLabels {
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[k] = v
		}
		claims = append(claims, c)
	}
	return claims
}
