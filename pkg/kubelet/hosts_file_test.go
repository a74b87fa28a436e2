package kubelet

import (
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
