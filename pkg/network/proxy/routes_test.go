package proxy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that is older than a ServiceCIDR gets one Event about it, and is forgotten with its end.
func TestOlderPodsOnce(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	both, a := []*corev1.Pod{pod("a"), pod("b")}, map[types.UID]bool{"a": true}
	r := &routes{warned: map[string]map[types.UID]bool{}}
	for i, tt := range []struct {
		cidr  string
		pods  []*corev1.Pod
		older map[types.UID]bool
		want  int
	}{
		{"x", both, a, 1},
		{"x", both, nil, 0}, // the supervisor's connection is lost
		{"x", both, a, 0},
		{"y", both, a, 1},
	} {
		if got := r.unwarned(tt.cidr, tt.pods, tt.older); len(got) != tt.want {
			t.Errorf("step %d: %d Events, want %d", i, len(got), tt.want)
		}
	}
	if r.unwarned("x", both[1:], nil); len(r.warned["x"]) != 0 {
		t.Errorf("the pod is gone, and %v are kept", r.warned["x"])
	}
}
