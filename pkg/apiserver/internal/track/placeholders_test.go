package track

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods that differ only in their addresses share one shape, and each gets fields for its own addresses.
func TestPodsWithOtherAddressesShareAShape(t *testing.T) {
	b := newBoth()
	ips := func(list ...string) (out []corev1.PodIP) {
		for _, ip := range list {
			out = append(out, corev1.PodIP{IP: ip})
		}
		return out
	}
	for run := range 4 {
		one, two, six := fmt.Sprintf("10.0.0.%d", run), fmt.Sprintf("10.0.1.%d", run), fmt.Sprintf("fd00::%d", run)
		pod := basePod()
		w := Write{Resource: &podRow, Manager: "maker"}
		b.update(t, w, nil, pod)
		pod.UID = types.UID(fmt.Sprint("uid", run))
		for _, list := range [][]corev1.PodIP{ips(one), ips(one), ips(two), ips(two, six), ips(six), nil, ips("not-an-address")} {
			next := pod.DeepCopy()
			next.Status.PodIPs = list
			b.update(t, Write{Resource: &podRow, Manager: "kubelet", Subresource: "status"}, pod, next)
			pod = next
		}
	}
	if b.hits < 3*5 || b.lost > 0 {
		t.Errorf("%d hits, %d lost: pods with other addresses are not known", b.hits, b.lost)
	}
}
