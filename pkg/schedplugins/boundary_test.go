package schedplugins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// faulty is a plugin with every extension point. At the point in a pod's label "fault" it fails once for that pod.
type faulty struct {
	misbehave func()
	mu        sync.Mutex
	done      map[string]bool
	closed    bool
	// cooperative makes the plugin scheduler.Cooperative.
	cooperative bool
}

// cooperativeFaulty is a faulty plugin whose calls run on the engine's goroutines.
type cooperativeFaulty struct {
	*faulty
	cooperative
}

func (f *faulty) Name() string { return "Faulty" }

// once reports whether this is the first call for that pod at that point.
func (f *faulty) once(p *corev1.Pod, point string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.done[p.Name+" "+point]
	f.done[p.Name+" "+point] = true
	return first
}

func (f *faulty) at(p *corev1.Pod, point string) {
	if p.Labels["fault"] == point && f.once(p, point) {
		f.misbehave()
	}
}

func (f *faulty) PreEnqueue(_ context.Context, p *corev1.Pod) *framework.Status {
	f.at(p, "PreEnqueue")
	return nil
}
func (f *faulty) PreFilter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	f.at(p, "PreFilter")
	return nil, nil
}
func (f *faulty) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter rejects a pod once if the tested extension point runs only for rejected pods.
func (f *faulty) Filter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeInfo) *framework.Status {
	f.at(p, "Filter")
	if fault := p.Labels["fault"]; (fault == "PostFilter" || fault == "QueueingHint") && f.once(p, "rejection") {
		return framework.NewStatus(framework.Unschedulable, "rejected once")
	}
	return nil
}
func (f *faulty) PostFilter(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	f.at(p, "PostFilter")
	return nil, framework.NewStatus(framework.Unschedulable)
}
func (f *faulty) PreScore(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ []framework.NodeInfo) *framework.Status {
	f.at(p, "PreScore")
	return nil
}
func (f *faulty) Score(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeInfo) (int64, *framework.Status) {
	f.at(p, "Score")
	return 0, nil
}
func (f *faulty) ScoreExtensions() framework.ScoreExtensions { return f }
func (f *faulty) NormalizeScore(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ framework.NodeScoreList) *framework.Status {
	f.at(p, "NormalizeScore")
	return nil
}
func (f *faulty) Reserve(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	f.at(p, "Reserve")
	return nil
}
func (f *faulty) Unreserve(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) {
	f.at(p, "Unreserve")
}

// Permit fails once for pods whose fault is in Unreserve, so that Unreserve is called.
func (f *faulty) Permit(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) (*framework.Status, time.Duration) {
	f.at(p, "Permit")
	if p.Labels["fault"] == "Unreserve" && f.once(p, "failure") {
		return framework.AsStatus(fmt.Errorf("failed once")), 0
	}
	return nil, 0
}
func (f *faulty) PreBindPreFlight(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) (*framework.PreBindPreFlightResult, *framework.Status) {
	f.at(p, "PreBindPreFlight")
	return nil, nil
}
func (f *faulty) PreBind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	f.at(p, "PreBind")
	return nil
}
func (f *faulty) Bind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	f.at(p, "Bind")
	return framework.NewStatus(framework.Skip)
}
func (f *faulty) PostBind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) {
	f.at(p, "PostBind")
}
func (f *faulty) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	hint := func(_ klog.Logger, p *corev1.Pod, _, _ any) (framework.QueueingHint, error) {
		f.at(p, "QueueingHint")
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{on(framework.Node, framework.All, hint)}, nil
}

func (f *faulty) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *faulty) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

const faultyProfile = header + `profiles:
- schedulerName: default-scheduler
- schedulerName: faulty
  plugins:
    multiPoint: {enabled: [{name: Faulty}]}
    bind: {disabled: [{name: "*"}], enabled: [{name: Faulty}, {name: DefaultBinder}]}
`

// startFaulty starts a scheduler with a second profile, faulty, that has the plugin.
func (c *cluster) startFaulty(f *faulty, timeouts scheduler.PluginTimeouts) {
	c.t.Helper()
	f.done = map[string]bool{}
	registry := maps.Clone(Registry)
	registry["Faulty"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
		if f.cooperative {
			return cooperativeFaulty{faulty: f}, nil
		}
		return f, nil
	}
	conf := &configv1.KubeSchedulerConfiguration{}
	if err := plug.Decode([]byte(faultyProfile), conf); err != nil {
		c.t.Fatal(err)
	}
	c.start(func(cfg *scheduler.Config) { cfg.Registry, cfg.Config, cfg.Timeouts = registry, conf, timeouts })
}

// faultAt returns a pod of the profile faulty for which the plugin fails at a point.
func (c *cluster) faultAt(point string) string {
	c.t.Helper()
	name := nameAt(point)
	c.pod(name, "1m", func(p *corev1.Pod) {
		p.Spec.SchedulerName, p.Labels = "faulty", map[string]string{"fault": point}
	})
	return name
}

func nameAt(point string) string { return "at-" + strings.ToLower(point) }

// failed waits for the Event of an attempt that ended with an error. The pod's condition may already show a later attempt.
func (c *cluster) failed(name, message string) {
	c.t.Helper()
	c.event(name, "FailedScheduling", message)
}

// TestPanics checks that a panic of a plugin fails the attempt of that pod alone, at each extension point.
func TestPanics(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	c.startFaulty(&faulty{misbehave: func() { panic("boom") }}, scheduler.PluginTimeouts{})
	points := []string{"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind"}
	for _, point := range append(points, "PostFilter", "Unreserve", "PostBind") {
		c.faultAt(point)
	}
	for _, point := range append(points, "PostFilter") {
		c.failed(nameAt(point), fmt.Sprintf("running %s plugin %q: panic: boom", point, "Faulty"))
	}
	for _, point := range append(points, "PostFilter", "Unreserve", "PostBind") {
		c.bound(nameAt(point)) // after its backoff
	}
	c.faultAt("QueueingHint")
	c.unschedulable(nameAt("QueueingHint"), "0/1 nodes are available: 1 rejected once. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
	c.node("m", "8")
	c.bound(nameAt("QueueingHint"))
	c.pod("other", "1m")
	c.bound("other")
}

// TestCooperativePanics checks that a panic of a cooperative plugin fails the attempt of that pod alone, too.
func TestCooperativePanics(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	c.startFaulty(&faulty{cooperative: true, misbehave: func() { panic("boom") }}, scheduler.PluginTimeouts{})
	points := []string{"PreEnqueue", "Filter", "Score", "Reserve", "PreBind", "Bind"}
	for _, point := range points {
		c.faultAt(point)
	}
	for _, point := range points {
		c.failed(nameAt(point), fmt.Sprintf("running %s plugin %q: panic: boom", point, "Faulty"))
		c.bound(nameAt(point)) // after its backoff
	}
	c.pod("other", "1m")
	c.bound("other")
}

// TestCooperative checks that all plugins of the registry are cooperative: one that is not would slow down every profile
// that has it. Wasm is not, since it runs foreign code.
func TestCooperative(t *testing.T) {
	registry := scheduler.Registry{}
	checked := 0
	want := 0
	for name, factory := range Registry {
		if strings.HasPrefix(name, "Wasm") {
			continue
		}
		want++
		registry[name] = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
			plugin, err := factory(ctx, args, h)
			checked++
			if _, ok := plugin.(scheduler.Cooperative); !ok {
				t.Errorf("%s is not cooperative", name)
			}
			return plugin, err
		}
	}
	conf := &configv1.KubeSchedulerConfiguration{}
	args := "args: {score: node.pods}"
	if err := plug.Decode([]byte(header+"profiles:\n- pluginConfig: [{name: CEL, "+args+"}, {name: CEL/a, "+args+"}, {name: Coscheduling}]"), conf); err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.Simulate(t.Context(), scheduler.Simulation{Registry: registry, Config: conf, Pod: somePod("p", ""), Features: feature.All}); err != nil {
		t.Fatal(err)
	}
	if checked != want {
		t.Errorf("%d of %d plugins were made", checked, want)
	}
}

// TestHangingCallSuspendsPlugin checks that a hanging call fails the attempt of its pod, suspends the plugin until the call returns, and
// does not keep pods of other profiles from being scheduled.
func TestHangingCallSuspendsPlugin(t *testing.T) {
	for _, point := range []string{"PreEnqueue", "Filter", "Reserve", "PreBind"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.node("n", "8")
			release := make(chan struct{})
			c.startFaulty(&faulty{misbehave: func() { <-release }}, scheduler.PluginTimeouts{Cycle: time.Second, Binding: time.Second})
			hung := c.faultAt(point)
			c.failed(hung, fmt.Sprintf("running %s plugin %q: the plugin did not return within 1s", point, "Faulty"))
			c.pod("other", "1m")
			c.bound("other")
			second := c.faultAt("none")
			c.eventually("event", func() bool {
				return slices.ContainsFunc(c.events(), func(e *corev1.Event) bool {
					return e.InvolvedObject.Name == second && strings.HasSuffix(e.Message, "the plugin is suspended: an earlier call has exceeded its time-out and has not returned")
				})
			})
			close(release)
			c.bound(hung)
			c.bound(second)
		})
	}
}
