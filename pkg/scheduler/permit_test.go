package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestPermitTimers checks that a plugin's time-out ends a wait only while that plugin has not allowed the pod.
func TestPermitTimers(t *testing.T) {
	both := map[string]time.Duration{"quick": time.Minute, "slow": time.Hour}
	for _, c := range []struct {
		name    string
		allow   map[string]time.Duration // when plugins allow the pod
		want    framework.Code
		plugin  string
		message string
		after   time.Duration
	}{
		{"none allows", nil, framework.Unschedulable, "quick", "rejected due to timeout after waiting 1m0s at plugin quick", time.Minute},
		{"the quick one allows", map[string]time.Duration{"quick": time.Second}, framework.Unschedulable, "slow", "rejected due to timeout after waiting 1h0m0s at plugin slow", time.Hour},
		{"both allow", map[string]time.Duration{"quick": time.Second, "slow": 30 * time.Minute}, framework.Success, "", "", 30 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := newWaitingPod(clock.Real(), &corev1.Pod{}, both)
				for plugin, after := range c.allow {
					time.AfterFunc(after, func() { w.Allow(plugin) })
				}
				got := w.wait(context.Background())
				if got.Code() != c.want || got != nil && got.Plugin() != c.plugin || got.Message() != c.message {
					t.Errorf("got %v: %s", got.Code(), got.Message())
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("waited %v, want %v", took, c.after)
				}
			})
		})
	}
}
