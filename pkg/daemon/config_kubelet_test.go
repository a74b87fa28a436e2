package daemon

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}

func TestShutdownPeriods(t *testing.T) {
	for _, c := range []struct {
		name string
		in   KubeletConfig
		want []kubelet.PriorityGrace
		sum  time.Duration
	}{
		{"none", KubeletConfig{}, nil, 0},
		{"all", KubeletConfig{ShutdownGracePeriod: seconds(30), ShutdownGracePeriodCriticalPods: seconds(10)},
			[]kubelet.PriorityGrace{{Priority: 0, Period: 20 * time.Second}, {Priority: systemCritical, Period: 10 * time.Second}}, 30 * time.Second},
		{"by priority", KubeletConfig{ShutdownGracePeriodByPodPriority: []ShutdownGracePeriod{{Priority: 5, ShutdownGracePeriodSeconds: 7}}},
			[]kubelet.PriorityGrace{{Priority: 5, Period: 7 * time.Second}}, 7 * time.Second},
	} {
		got := c.in.shutdownPeriods()
		if len(got) != len(c.want) || c.in.shutdownPeriod() != c.sum {
			t.Fatalf("%s: got %v in %s", c.name, got, c.in.shutdownPeriod())
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestKubeletConfigErrors(t *testing.T) {
	for want, c := range map[string]KubeletConfig{
		"": {ShutdownGracePeriod: seconds(2), ShutdownGracePeriodCriticalPods: seconds(2)},
		"evictionHard: unsupported eviction signal cpu":                                               {EvictionHard: map[string]string{"cpu": "1"}},
		`evictionHard: memory.available: "much" is neither a quantity such as 100Mi nor a percentage`: {EvictionHard: map[string]string{"memory.available": "much"}},
		`evictionHard: memory.available: "x%" is not a percentage such as 10%`:                        {EvictionHard: map[string]string{"memory.available": "x%"}},
		`"soon" is not a duration such as 90m`:                                                        {EvictionSoft: map[string]string{"memory.available": "1Gi"}, EvictionSoftGracePeriod: map[string]string{"memory.available": "soon"}},
		"evictionMaxPodGracePeriod: -1 is negative":                                                   {EvictionMaxPodGracePeriod: -1},
		"evictionPressureTransitionPeriod: -2s is negative":                                           {EvictionPressureTransitionPeriod: seconds(-2)},
		"podPidsLimit: -2 is below -1":                                                                {PodPIDsLimit: -2},
		"at least a second":                                                                           {ShutdownGracePeriod: metav1.Duration{Duration: time.Millisecond}},
		"is more than":                                                                                {ShutdownGracePeriod: seconds(2), ShutdownGracePeriodCriticalPods: seconds(3)},
		"exclude each other":                                                                          {ShutdownGracePeriod: seconds(2), ShutdownGracePeriodByPodPriority: []ShutdownGracePeriod{{}}},
		"[0].shutdownGracePeriodSeconds: -1 is negative":                                              {ShutdownGracePeriodByPodPriority: []ShutdownGracePeriod{{ShutdownGracePeriodSeconds: -1}}},
		"[1].priority: 3 is in the list already":                                                      {ShutdownGracePeriodByPodPriority: []ShutdownGracePeriod{{Priority: 3}, {Priority: 3}}},
	} {
		err := c.complete()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
