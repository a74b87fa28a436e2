package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// eventful is a plugin whose first Filter of the pod "late" rejects it, whose first Permit of "waits" waits for a time-out, and whose first Bind of
// "fails" fails. The only event that requeues a pod that it rejected is one that does not happen.
type eventful struct {
	handle framework.Handle
	seen   map[string]bool
}

// first reports whether the pod has this name and the call is the first of its kind.
func (m *eventful) first(p *corev1.Pod, name string) bool {
	first := p.Name == name && !m.seen[name]
	m.seen[name] = m.seen[name] || first
	return first
}

func (*eventful) Name() string { return "Eventful" }
func (*eventful) Cooperative() {}
func (*eventful) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{{Event: framework.ClusterEvent{Resource: framework.CSINode, ActionType: framework.Delete}}}, nil
}

func (m *eventful) Filter(_ context.Context, _ framework.CycleState, p *corev1.Pod, n framework.NodeInfo) *framework.Status {
	if n.Node().Name == "n" && m.first(p, "late") {
		return framework.NewStatus(framework.Unschedulable)
	}
	return nil
}

func (*eventful) Score(context.Context, framework.CycleState, *corev1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 0, nil
}
func (*eventful) ScoreExtensions() framework.ScoreExtensions { return nil }

func (m *eventful) Permit(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) (*framework.Status, time.Duration) {
	if m.first(p, "waits") {
		return framework.NewStatus(framework.Wait), 10 * time.Second
	}
	return nil, 0
}

func (*eventful) PreBindPreFlight(context.Context, framework.CycleState, *corev1.Pod, string) (*framework.PreBindPreFlightResult, *framework.Status) {
	return nil, nil
}
func (*eventful) PreBind(context.Context, framework.CycleState, *corev1.Pod, string) *framework.Status {
	return nil
}

func (m *eventful) Bind(_ context.Context, _ framework.CycleState, p *corev1.Pod, _ string) *framework.Status {
	if m.first(p, "fails") {
		return framework.AsStatus(errors.New("no binding"))
	}
	return framework.NewStatus(framework.Skip)
}

func (m *eventful) PostBind(context.Context, framework.CycleState, *corev1.Pod, string) {
	m.handle.Parallelizer().Until(context.Background(), 1, func(int) {}, "measure")
}

// samples are metrics with their labels: the values of counters and gauges, and the numbers of observations.
type samples map[string]float64

// gathered returns the scheduler's samples, and the definition of each of their families: its type, label names and buckets, and its help.
func gathered(t *testing.T, s *scheduler.Scheduler) (samples, map[string]string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Metrics(t.Context()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values, definitions := samples{}, map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var names, pairs []string
			for _, l := range m.GetLabel() {
				names, pairs = append(names, l.GetName()), append(pairs, l.GetName()+"="+l.GetValue())
			}
			buckets, value := "-", m.GetCounter().GetValue()+m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				var bounds []float64
				for _, b := range h.GetBucket() {
					bounds = append(bounds, b.GetUpperBound())
				}
				buckets, value = exponential(bounds), float64(h.GetSampleCount())
			}
			name := strings.TrimPrefix(f.GetName(), "scheduler_")
			values[strings.TrimSpace(name+" "+strings.Join(pairs, " "))] = value
			labels := strings.Join(names, ",")
			if labels == "" {
				labels = "-"
			}
			definitions[f.GetName()] = fmt.Sprintf("%s labels=%s buckets=%s\n\t%s", strings.ToLower(f.GetType().String()), labels, buckets, f.GetHelp())
		}
	}
	return values, definitions
}

// exponential returns the start, factor and count of exponential buckets.
func exponential(bounds []float64) string {
	factor := math.Round(bounds[1]/bounds[0]*1000) / 1000
	for i, b := range prometheus.ExponentialBuckets(bounds[0], factor, len(bounds)) {
		if b != bounds[i] {
			return fmt.Sprint(bounds)
		}
	}
	return strconv.FormatFloat(bounds[0], 'f', -1, 64) + "," + strconv.FormatFloat(factor, 'f', -1, 64) + "," + strconv.Itoa(len(bounds))
}

// upstreamMetrics returns the definitions in testdata/metrics.txt, of the metrics that are served here and of the others.
func upstreamMetrics(t *testing.T) (served, others map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	served, others = map[string]string{}, map[string]string{}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")[1:]
	for i := 0; i < len(lines); i += 2 {
		line, left := strings.CutPrefix(lines[i], "- ")
		name, definition, _ := strings.Cut(line, " ")
		to := served
		if left {
			to = others
		}
		to[name] = definition + "\n" + lines[i+1]
	}
	return served, others
}

// startEventful starts a scheduler with the plugin eventful.
func startEventful(v *virtualCluster, gates feature.Gates) {
	v.t.Helper()
	registry := maps.Clone(Registry)
	registry["Eventful"] = func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		return &eventful{handle: h, seen: map[string]bool{}}, nil
	}
	v.start(func(cfg *scheduler.Config) {
		cfg.Registry, cfg.Features = registry, gates
		cfg.Config = config(v.t, `profiles:
- plugins:
    multiPoint: {enabled: [{name: Eventful}]}
    bind: {disabled: [{name: "*"}], enabled: [{name: Eventful}, {name: DefaultBinder}]}
`)
	})
}

// TestMetrics checks the definitions of the metrics by those of kube-scheduler, and what a run counts.
func TestMetrics(t *testing.T) {
	gates := feature.Gates{GenericWorkload: true, GangScheduling: true}
	v := newVirtualCluster(t, 1, withFeatures(gates))
	v.node("n", "4")
	startEventful(v, gates)
	v.pod("fits", "3")
	v.advance(0)
	v.pod("large", "100")
	v.pod("gated", "1", gated)
	v.pod("late", "10m")
	v.pod("fails", "10m")
	v.pod("waits", "10m")
	v.advance(time.Second / 2)
	waiting, _ := gathered(t, v.scheduler)
	v.advance(time.Minute)
	v.pod("urgent", "3500m", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" })
	v.advance(0)
	v.deleteNow(client.In(client.Pods, keyOf("fits")))
	v.advance(6 * time.Minute)
	v.podGroup("gang", 2)
	v.resize("n", "8")
	v.pod("g1", "1", inGroup("gang"))
	v.pod("g2", "1", inGroup("gang"))
	v.advance(time.Minute)

	got, definitions := gathered(t, v.scheduler)
	checkDefinitions(t, definitions)
	if waiting["goroutines operation=binding"] != 1 {
		t.Errorf("%v binding cycles while one waits in Permit", waiting["goroutines operation=binding"])
	}
	data, err := os.ReadFile("testdata/metrics-run.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := samples{}
	for line := range strings.Lines(string(data)) {
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			t.Fatal(err)
		}
		want[line[:at]] = value
	}
	got.equal(t, want)
}

// checkDefinitions compares all metrics with those of kube-scheduler.
func checkDefinitions(t *testing.T, got map[string]string) {
	t.Helper()
	served, _ := upstreamMetrics(t)
	for name, want := range served {
		if got[name] != want {
			t.Errorf("%s %s\nwant\n%s", name, got[name], want)
		}
	}
	for name := range got {
		if served[name] == "" {
			t.Errorf("%s is not a metric of kube-scheduler that is served here", name)
		}
	}
}

// equal compares samples. Those of the default plugins are compared for one of each kind of point only.
func (s samples) equal(t *testing.T, want samples) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		_, plugin, ofPlugin := strings.Cut(name, "plugin=")
		plugin, _, _ = strings.Cut(plugin, " ")
		if ofPlugin && !slices.Contains([]string{"Eventful", "NodeResourcesFit", "TaintToleration", "DefaultPreemption", "SchedulingGates"}, plugin) {
			continue
		}
		if v, ok := want[name]; !ok || v != s[name] {
			t.Errorf("%s %v, want %v", name, s[name], v)
		}
	}
	for name := range want {
		if _, ok := s[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestMetricsOfCachedResults checks what counts when a second pod uses the results of the first one, and that there are no metrics of PodGroups without
// their feature gate.
func TestMetricsOfCachedResults(t *testing.T) {
	v := newVirtualCluster(t, 1)
	for _, name := range []string{"a", "b", "c"} {
		v.node(name, "4")
	}
	v.start(nil)
	v.pod("first", "1")
	v.pod("second", "1")
	v.advance(time.Second)
	got, definitions := gathered(t, v.scheduler)
	wants := samples{
		"framework_extension_point_duration_seconds extension_point=Sign profile=default-scheduler status=Success":      2,
		"framework_extension_point_duration_seconds extension_point=PreFilter profile=default-scheduler status=Success": 1,
		"framework_extension_point_duration_seconds extension_point=Filter profile=default-scheduler status=Success":    2,
		"framework_extension_point_duration_seconds extension_point=Score profile=default-scheduler status=Success":     2,
		"plugin_evaluation_total extension_point=PreFilter plugin=NodeResourcesFit profile=default-scheduler":           1,
		"plugin_evaluation_total extension_point=Filter plugin=NodeResourcesFit profile=default-scheduler":              4, // the three nodes, and that of the first pod
		"plugin_evaluation_total extension_point=Score plugin=NodeResourcesFit profile=default-scheduler":               4,
	}
	for name, want := range wants {
		if got[name] != want {
			t.Errorf("%s %v, want %v", name, got[name], want)
		}
	}
	for name := range definitions {
		if strings.Contains(name, "podgroup") {
			t.Errorf("%s without the feature gate", name)
		}
	}
}
