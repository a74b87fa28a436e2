package kubelet

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostsPath is the file with the names of hosts, in a container and on the machine.
const hostsPath = "/etc/hosts"

// ClusterDomain is the domain of the names of Services and pods.
const ClusterDomain = "cluster.local"

// networkFiles makes the files by which programs in the pod find hosts, and returns where a container has them: those for which it
// has no mount of its own.
func (v *podVolumes) networkFiles(pod *corev1.Pod, c *corev1.Container, ip string) ([]Mount, error) {
	files := map[string]func() ([]byte, error){
		hostsPath:    func() ([]byte, error) { return podHosts(pod, ip) },
		resolvPath:   func() ([]byte, error) { return podResolvConf(pod, v.kubelet.host.ClusterDNS) },
		nsswitchPath: func() ([]byte, error) { return podNSSwitch(pod, v.kubelet.host.ClusterDNS) },
	}
	var out []Mount
	for _, at := range slices.Sorted(maps.Keys(files)) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return filepath.Clean(m.MountPath) == at }) {
			continue
		}
		text, err := files[at]()
		if err != nil {
			return nil, err
		}
		if text == nil {
			continue // the machine's own file serves
		}
		path := filepath.Join(v.podDir(), "etc-"+filepath.Base(at))
		if err := writeInPlace(path, text); err != nil {
			return nil, err
		}
		out = append(out, Mount{Host: path, Container: at})
	}
	return out, nil
}

// writeInPlace writes a file for containers, without replacing it: those that run have it mounted.
func writeInPlace(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // WriteFile applies the umask
}

// podHosts returns the hosts file of a pod. The content is that of Kubernetes' kubelet, which programs of users parse.
func podHosts(pod *corev1.Pod, ip string) ([]byte, error) {
	text := hostsFile(pod, ip)
	if pod.Spec.HostNetwork {
		machine, err := os.ReadFile(hostsPath)
		if err != nil {
			return nil, err
		}
		text = append([]byte("# Kubernetes-managed hosts file (host network).\n"), machine...)
	}
	return append(text, hostAliases(pod.Spec.HostAliases)...), nil
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
	name, domain := podHostname(pod)
	if domain != "" {
		name = name + "." + domain + "\t" + name
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
