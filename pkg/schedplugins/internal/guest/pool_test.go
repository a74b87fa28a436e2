package guest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPool checks which memory the calls for a pod have. The module's functions count their calls in it.
func TestPool(t *testing.T) {
	count := "\x41\x00\x41\x00\x28\x02\x00\x41\x01\x6a\x36\x02\x00\x41\x00\x28\x02\x00\x0b" // memory[0] = memory[0] + 1; return memory[0]
	binary := "\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x05\x03\x01\x00\x01" +
		"\x07\x20\x03\x06memory\x02\x00\x09prefilter\x00\x00\x07prebind\x00\x00" + "\x0a\x16\x01\x14\x00" + count
	m, err := New(t.Context(), []byte(binary), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	cycle := func(pod string, want uint64) {
		t.Helper()
		if got, err := m.Call(t.Context(), PreFilter, &Values{Pod: named(pod)}); got != want || err != nil {
			t.Errorf("call %d in the scheduling cycle of %s, want %d: %v", got, pod, want, err)
		}
	}
	binding := func(pod string, want uint64) {
		t.Helper()
		if got, err := m.CallBinding(t.Context(), PreBind, &Values{Pod: named(pod)}); got != want || err != nil {
			t.Errorf("call %d in the binding cycle of %s, want %d: %v", got, pod, want, err)
		}
	}
	cycle("a", 1)
	m.Reserve("a")
	cycle("b", 1)
	binding("a", 2)
	m.Reserve("b")
	m.Release(t.Context(), "a")
	cycle("c", 1)
	binding("b", 2)
	m.Reserve("c")
	cycle("d", 3) // the instance that a released
	m.kept = MaxReserved
	m.Reserve("d") // there is no room
	binding("d", 1)
	binding("d", 1)
	cycle("e", 4)
	for _, pod := range []types.UID{"b", "c", "d"} {
		m.Release(t.Context(), pod)
	}
	if len(m.pods) != 0 || len(m.free) != 2 {
		t.Errorf("%d pods and %d free instances", len(m.pods), len(m.free))
	}
}

func named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}
}
