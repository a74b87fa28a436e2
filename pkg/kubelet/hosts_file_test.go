package kubelet

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHostsFile(t *testing.T) {
	const common = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"plain", corev1.PodSpec{}, common + "127.5.1.2\tweb\n"},
		{"subdomain", corev1.PodSpec{Hostname: "a", Subdomain: "sub"}, common + "127.5.1.2\ta.sub.shop.svc.cluster.local\ta\n"},
		{"aliases", corev1.PodSpec{HostAliases: []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"foo", "bar"}}}},
			common + "127.5.1.2\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: c.spec}
			if got := string(hostsFile(pod, "127.5.1.2")) + string(hostAliases(pod.Spec.HostAliases)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestResolvConf(t *testing.T) {
	cluster := netip.MustParseAddr("127.5.128.10")
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"None", corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, Searches: []string{"a.example", "b.example"},
			Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}},
		}}, "search a.example b.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\noptions ndots:2 edns0\n"},
		{"None without anything", corev1.PodSpec{DNSPolicy: corev1.DNSNone}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := podResolvConf(&corev1.Pod{Spec: c.spec}, cluster)
			if err != nil || string(got) != c.want || got == nil {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{DNSConfig: &corev1.PodDNSConfig{
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("1")}},
	}}}
	got, err := podResolvConf(first, cluster)
	if err != nil || !strings.HasPrefix(string(got), "search shop.svc.cluster.local svc.cluster.local cluster.local") ||
		!strings.HasSuffix(string(got), "nameserver 127.5.128.10\noptions ndots:1\n") {
		t.Errorf("got %q, %v", got, err)
	}
	for _, spec := range []corev1.PodSpec{{DNSPolicy: corev1.DNSDefault}, {HostNetwork: true, DNSPolicy: corev1.DNSClusterFirst}} {
		if got, err := podResolvConf(&corev1.Pod{Spec: spec}, cluster); err != nil || got != nil {
			t.Errorf("%+v: got %q, %v, want the machine's", spec, got, err)
		}
	}
}
