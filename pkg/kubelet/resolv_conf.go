package kubelet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	resolvPath   = "/etc/resolv.conf"
	nsswitchPath = "/etc/nsswitch.conf"
)

// resolver is the content of a resolv.conf.
type resolver struct {
	servers, searches, options []string
}

// The bounds of the kubelet of Kubernetes.
const (
	maxServers  = 3
	maxSearches = 32
)

// podResolvConf returns the resolv.conf of a pod after its DNS policy; nil: the machine's serves.
func podResolvConf(pod *corev1.Pod, cluster netip.Addr) ([]byte, error) {
	r, err := podResolver(pod, cluster)
	if r == nil {
		return nil, err
	}
	return r.text(), nil
}

// clusterResolver returns how a pod finds names in the cluster; nil: its DNS policy uses other servers.
func clusterResolver(pod *corev1.Pod, cluster netip.Addr) (*Resolver, error) {
	if !usesClusterDNS(pod) || !cluster.IsValid() {
		return nil, nil
	}
	r, err := podResolver(pod, cluster)
	if err != nil {
		return nil, err
	}
	return &Resolver{Server: cluster, Searches: r.searches[:min(len(r.searches), maxSearches)], Options: r.options}, nil
}

// podResolver returns the resolver of a pod after its DNS policy; nil: the machine's. Without a cluster DNS server, ClusterFirst means
// Default, as in Kubernetes.
func podResolver(pod *corev1.Pod, cluster netip.Addr) (*resolver, error) {
	asked := usesClusterDNS(pod) && cluster.IsValid()
	if !asked && pod.Spec.DNSPolicy != corev1.DNSNone && pod.Spec.DNSConfig == nil {
		return nil, nil
	}
	var r resolver
	if pod.Spec.DNSPolicy != corev1.DNSNone {
		var err error
		if r, err = readResolvConf(resolvPath); err != nil {
			return nil, err
		}
	}
	if asked {
		r.servers = []string{cluster.String()}
		r.searches = append([]string{pod.Namespace + ".svc." + ClusterDomain, "svc." + ClusterDomain, ClusterDomain}, r.searches...)
		r.options = []string{"ndots:5"}
	}
	r.add(pod.Spec.DNSConfig)
	return &r, nil
}

// usesClusterDNS reports whether a pod's names are those of the cluster.
func usesClusterDNS(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	}
	return false
}

// readResolvConf reads the machine's resolv.conf. A machine without one has no servers.
func readResolvConf(path string) (resolver, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return resolver{}, err
	}
	var r resolver
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			r.servers = append(r.servers, f[1])
		case "search", "domain": // the last line counts
			r.searches = f[1:]
		case "options":
			r.options = append(r.options, f[1:]...)
		}
	}
	return r, nil
}

// add adds what the pod's own configuration has. Its options replace those of the same name.
func (r *resolver) add(c *corev1.PodDNSConfig) {
	if c == nil {
		return
	}
	r.servers = appendNew(r.servers, c.Nameservers)
	r.searches = appendNew(r.searches, c.Searches)
	for _, o := range c.Options {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		r.options = slices.DeleteFunc(r.options, func(have string) bool {
			name, _, _ := strings.Cut(have, ":")
			return name == o.Name
		})
		r.options = append(r.options, text)
	}
}

// appendNew appends the elements that the list lacks.
func appendNew(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// text returns the file as container runtimes write it. It is not nil.
func (r *resolver) text() []byte {
	b := bytes.NewBuffer([]byte{})
	if n := min(len(r.searches), maxSearches); n > 0 {
		fmt.Fprintf(b, "search %s\n", strings.Join(r.searches[:n], " "))
	}
	for _, s := range r.servers[:min(len(r.servers), maxServers)] {
		fmt.Fprintf(b, "nameserver %s\n", s)
	}
	if len(r.options) > 0 {
		fmt.Fprintf(b, "options %s\n", strings.Join(r.options, " "))
	}
	return b.Bytes()
}

// podNSSwitch returns an nsswitch.conf with which programs ask the pod's servers: the machine's may send them to a local service
// such as systemd-resolved instead. It is nil if the machine has none, or the pod uses the machine's servers.
func podNSSwitch(pod *corev1.Pod, cluster netip.Addr) ([]byte, error) {
	if !usesClusterDNS(pod) || !cluster.IsValid() {
		return nil, nil
	}
	text, err := os.ReadFile(nsswitchPath)
	if err != nil {
		return nil, nil //nolint:nilerr // programs then ask the servers anyway
	}
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("hosts:")) {
			line = []byte("hosts: files dns\n")
		}
		b.Write(line)
	}
	return b.Bytes(), nil
}
