package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKubeletSettings checks which settings are shown as fields of a KubeletConfiguration.
func TestKubeletSettings(t *testing.T) {
	k := &KubeletConfig{StaticPodPath: "/pods", EvictionHard: map[string]string{"memory.available": "1Gi"}, SecurityContext: bestEffort, MountPaths: bestEffort, PodUsers: ownUsers}
	want := map[string]any{
		"staticPodPath": "/pods", "evictionHard": map[string]any{"memory.available": "1Gi"}, "evictionPressureTransitionPeriod": "5m0s", "podPidsLimit": float64(-1),
	}
	if diff := cmp.Diff(want, k.settings()); diff != "" {
		t.Error(diff)
	}
}
