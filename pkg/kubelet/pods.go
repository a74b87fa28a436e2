package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

func keyOf(obj metav1.Object) objects.Key {
	return objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// logName returns a pod's name for messages, in the same form as Kubernetes' kubelet.
func logName(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

// isSidecar reports whether an init container runs beside the app containers.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// isFinished reports whether a phase is final.
func isFinished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// restarts reports whether the restart policy restarts a container after this exit code.
func restarts(pod *corev1.Pod, c *corev1.Container, exit int) bool {
	if c.RestartPolicy == nil {
		switch pod.Spec.RestartPolicy {
		case corev1.RestartPolicyNever:
			return false
		case corev1.RestartPolicyOnFailure:
			return exit != 0
		}
		return true
	}
	for _, rule := range c.RestartPolicyRules {
		if e := rule.ExitCodes; e != nil && slices.Contains(e.Values, int32(exit)) == (e.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	switch *c.RestartPolicy {
	case corev1.ContainerRestartPolicyNever:
		return false
	case corev1.ContainerRestartPolicyOnFailure:
		return exit != 0
	}
	return true
}

// restartsInit is like restarts, for an init container, which is never restarted after a success, even with the policy
// Always.
func restartsInit(pod *corev1.Pod, c *corev1.Container, exit int) bool {
	return isSidecar(c) || exit != 0 && restarts(pod, c, exit)
}

// restartsUnhealthy reports whether a container is started again after it was stopped because of a failed probe. Its exit code does not count.
func restartsUnhealthy(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// container returns the spec of a container by name, and its field path for Events: "spec.containers{web}".
func container(pod *corev1.Pod, name string) (*corev1.Container, string) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c, "spec.containers{" + name + "}"
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c, "spec.initContainers{" + name + "}"
		}
	}
	for _, c := range ephemeralContainers(pod) {
		if c.Name == name {
			return &c, "spec.ephemeralContainers{" + name + "}"
		}
	}
	return nil, ""
}

// ephemeralContainers returns the ephemeral containers of a pod, as containers.
func ephemeralContainers(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

func (p Pod) key() objects.Key { return objects.Key{Namespace: p.Namespace, Name: p.Name} }

// attempts returns the starts of one container that the runtime lists, the newest first.
func (p Pod) attempts(name string) []Container {
	var out []Container
	for _, c := range p.Containers {
		if c.Name == name {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Container) int { return b.Attempt - a.Attempt })
	return out
}

// latest returns the newest start of a container.
func (p Pod) latest(name string) (Container, bool) {
	var found Container
	ok := false
	for _, c := range p.Containers {
		if c.Name == name && (!ok || c.Attempt > found.Attempt) {
			found, ok = c, true
		}
	}
	return found, ok
}

// running reports whether any container of the pod runs.
func (p Pod) running() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Running })
}

// anyStatusOf returns the status of a container of any kind by name, nil if there is none.
func anyStatusOf(s *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		if c := statusOf(list, name); c != nil {
			return c
		}
	}
	return nil
}

// statusOf returns a container's status by name, nil if there is none.
func statusOf(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// podSpecFor returns a runtime's input for a pod, with the short host name and without the node's podCIDR.
func podSpecFor(pod *corev1.Pod) PodSpec {
	host, _ := podHostname(pod)
	var owner metav1.OwnerReference
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		owner = *ref
	}
	return PodSpec{
		UID: types.UID(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Hostname: host, HostNetwork: pod.Spec.HostNetwork, Annotations: pod.Annotations,
		Created: pod.CreationTimestamp.Time, OwnerKind: owner.Kind, OwnerName: owner.Name, OwnerUID: owner.UID,
	}
}

// fullHostname returns the host name that programs of a pod see: the short one, or with its domain if the pod says so.
func fullHostname(pod *corev1.Pod) (string, error) {
	name, domain := podHostname(pod)
	if domain == "" || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN {
		return name, nil
	}
	const longest = 64 // of the kernel
	name += "." + domain
	if len(name) > longest {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			name, longest, len(name))
	}
	return name, nil
}

// podHostname returns the short host name of a pod, and its domain; "": it has none.
func podHostname(pod *corev1.Pod) (name, domain string) {
	name = cmp.Or(pod.Spec.Hostname, pod.Name)
	if pod.Spec.Subdomain != "" {
		domain = fmt.Sprintf("%s.%s.svc.%s", pod.Spec.Subdomain, pod.Namespace, ClusterDomain)
	}
	if pod.Spec.HostnameOverride != nil {
		name, domain = *pod.Spec.HostnameOverride, ""
	}
	const longest = 63
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-.")
	}
	return name, domain
}
