package kubelet

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"
)

// addresses are those of a pod and of its node.
type addresses struct{ pod, host string }

// podField returns the value of a field of a pod for an environment variable or a downward API file.
func podField(pod *corev1.Pod, path string, at addresses) (string, error) {
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return at.host, nil
	case "status.podIP", "status.podIPs":
		return at.pod, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.annotations['x'] into metadata.annotations and x.
func subscript(path string) (name, key string, ok bool) {
	name, rest, found := strings.Cut(path, "['")
	if !found || !strings.HasSuffix(rest, "']") {
		return path, "", false
	}
	return name, strings.TrimSuffix(rest, "']"), true
}

// formatMap writes a line key="value" for each entry.
func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(lines, "\n")
}

// resourceField returns a container's request or limit in units of a divisor, rounded up. A limit that is not set is the
// node's whole capacity.
func resourceField(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector, node corev1.ResourceList) (string, error) {
	if ref.ContainerName != "" {
		if c, _ = container(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	r := corev1.ResourceName(name)
	switch kind {
	case "limits":
		q, ok := c.Resources.Limits[r]
		if !ok || q.IsZero() {
			q = node[r]
		}
		return inUnits(r, q, divisor), nil
	case "requests":
		return inUnits(r, c.Resources.Requests[r], divisor), nil
	}
	return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
}

func inUnits(name corev1.ResourceName, q, divisor resource.Quantity) string {
	if name == corev1.ResourceCPU {
		return strconv.FormatInt(int64(math.Ceil(float64(q.MilliValue())/float64(divisor.MilliValue()))), 10)
	}
	return strconv.FormatInt(int64(math.Ceil(float64(q.Value())/float64(divisor.Value()))), 10)
}
