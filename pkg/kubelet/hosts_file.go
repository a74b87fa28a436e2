package kubelet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostsPath is the file with the names of hosts, in a container and on the machine.
const hostsPath = "/etc/hosts"

const clusterDomain = "cluster.local"

// makeHostsFile makes the hosts file of a pod and returns its path. It returns "" for a container with a mount of its own at that path.
// The content is that of Kubernetes' kubelet, which programs of users parse.
func (v *podVolumes) makeHostsFile(pod *corev1.Pod, c *corev1.Container, ip string) (string, error) {
	if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return filepath.Clean(m.MountPath) == hostsPath }) {
		return "", nil
	}
	path := filepath.Join(v.podFolder(), "etc-hosts")
	text := hostsFile(pod, ip)
	if pod.Spec.HostNetwork {
		machine, err := os.ReadFile(hostsPath)
		if err != nil {
			return "", err
		}
		text = append([]byte("# Kubernetes-managed hosts file (host network).\n"), machine...)
	}
	text = append(text, hostAliases(pod.Spec.HostAliases)...)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return path, nil
	}
	if err := os.WriteFile(path, text, 0o644); err != nil { // in place: containers that run have it mounted
		return "", err
	}
	return path, os.Chmod(path, 0o644)
}

func hostsFile(pod *corev1.Pod, ip string) []byte {
	var b bytes.Buffer
	b.WriteString("# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n")
	name := podSpecFor(pod).Hostname
	if pod.Spec.Subdomain != "" {
		name = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", name, pod.Spec.Subdomain, pod.Namespace, clusterDomain, name)
	}
	fmt.Fprintf(&b, "%s\t%s\n", ip, name)
	return b.Bytes()
}

func hostAliases(aliases []corev1.HostAlias) []byte {
	if len(aliases) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range aliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.Bytes()
}
