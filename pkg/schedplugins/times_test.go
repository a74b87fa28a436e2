package schedplugins

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// slowCall is how long each call of the plugin slow takes at least.
const slowCall = 200 * time.Microsecond

// slow is a plugin whose calls take slowCall. Its Filter of the pod "hangs" does not return before the test ends, and the first binding of the
// pod "fails" fails.
type slow struct {
	stop   <-chan struct{}
	failed bool
}

func spin() {
	for began := time.Now(); time.Since(began) < slowCall; {
	}
}

func (s *slow) Name() string { return "Slow" }
func (s *slow) Filter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeInfo) *framework.Status {
	spin()
	if p.Name == "hangs" {
		<-s.stop
	}
	if p.Name == "rejected" {
		return framework.NewStatus(framework.Unschedulable)
	}
	return nil
}
func (s *slow) Reserve(context.Context, framework.CycleState, *corev1.Pod, string) *framework.Status {
	spin()
	return nil
}
func (s *slow) Unreserve(context.Context, framework.CycleState, *corev1.Pod, string) { spin() }
func (s *slow) Bind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	spin()
	if p.Name == "fails" && !s.failed {
		s.failed = true
		return framework.AsStatus(errors.New("no binding"))
	}
	return framework.NewStatus(framework.Skip)
}

// TestPluginTimes checks the times of plugins in decisions: of an attempt that binds the pod, of one whose binding fails, of one whose pod is
// rejected, and of one with a call that is abandoned.
func TestPluginTimes(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.node(name, "8")
	}
	stop := make(chan struct{})
	registry := maps.Clone(Registry)
	registry["Slow"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
		return &slow{stop: stop}, nil
	}
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(header+`profiles:
- plugins:
    multiPoint: {enabled: [{name: Slow}]}
    bind: {disabled: [{name: "*"}], enabled: [{name: Slow}, {name: DefaultBinder}]}
`), conf); err != nil {
		t.Fatal(err)
	}
	const timeout = time.Second
	c.start(func(cfg *scheduler.Config) {
		cfg.Registry, cfg.Config, cfg.Timeouts = registry, conf, scheduler.PluginTimeouts{Cycle: timeout}
	})
	t.Cleanup(func() { close(stop) })
	check := func(pod, outcome string, want map[string]time.Duration) *minikctl.Decision {
		t.Helper()
		d := c.decision(pod, outcome)
		for _, p := range d.PluginTimes {
			if p.Plugin == "Slow" {
				if least, ok := want[p.Point]; !ok || p.Took < least {
					t.Errorf("decision %s about %s: %s took %v, want %v at least", outcome, pod, p.Point, p.Took, least)
				}
				delete(want, p.Point)
			}
			if p.Took < time.Microsecond {
				t.Errorf("decision %s about %s has %+v", outcome, pod, p)
			}
		}
		if len(want) > 0 {
			t.Errorf("decision %s about %s lacks %v: %+v", outcome, pod, want, d.PluginTimes)
		}
		return d
	}
	c.pod("fails", "1")
	check("fails", "Error", map[string]time.Duration{"Filter": 3 * slowCall, "Reserve": slowCall, "Unreserve": slowCall, "Bind": slowCall})
	d := check("fails", "Scheduled", map[string]time.Duration{"Filter": 3 * slowCall, "Reserve": slowCall, "Unreserve": slowCall, "Bind": slowCall})
	if d.Attempt != 1 {
		t.Errorf("the decision is that of attempt %d", d.Attempt)
	}
	c.pod("binds", "1")
	d = check("binds", "Scheduled", map[string]time.Duration{"Filter": 3 * slowCall, "Reserve": slowCall, "Bind": slowCall})
	if last := d.PluginTimes[len(d.PluginTimes)-1]; last.Point != "Bind" || last.Plugin != "DefaultBinder" {
		t.Errorf("times: %+v", d.PluginTimes)
	}
	c.pod("rejected", "1")
	check("rejected", "Unschedulable", map[string]time.Duration{"Filter": 3 * slowCall})
	c.pod("hangs", "1")
	check("hangs", "Error", map[string]time.Duration{"Filter": timeout})
}
