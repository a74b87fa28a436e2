package autoscaling

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// testPod is a pod that has been ready for an hour, with one container that requests a core.
func testPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	start := metav1.NewTime(noon.Add(-2 * time.Hour))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: requests("1")}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

func pending(p *corev1.Pod)  { p.Status.Phase = corev1.PodPending }
func failed(p *corev1.Pod)   { p.Status.Phase = corev1.PodFailed }
func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) }

// started sets when a pod has started, and when it became ready or not.
func started(start, changed time.Duration, ready corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.StartTime = new(metav1.NewTime(noon.Add(-start)))
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = ready, metav1.NewTime(noon.Add(-changed))
	}
}

// values are the samples of the pods a, b, c, … in thousandths; negative: none.
func values(of ...int64) samples {
	out := samples{}
	for i, v := range of {
		if v >= 0 {
			out[string(rune('a'+i))] = sample{noon, 15 * time.Second, v}
		}
	}
	return out
}

// TestUtilization: the arithmetic of the documentation, desired = ceil(current * usage / target), and its exceptions.
func TestUtilization(t *testing.T) {
	fresh := started(time.Minute, 50*time.Second, corev1.ConditionTrue)
	for _, c := range []struct {
		name    string
		pods    []*corev1.Pod
		used    samples
		percent int32
		current int32
		want    int32
		seen    int32 // utilization
		err     string
	}{
		{name: "doubles", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(1000, 1000), percent: 50, current: 2, want: 4, seen: 100},
		{name: "halves", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(250, 250), percent: 50, current: 2, want: 1, seen: 25},
		{name: "rounds up", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(600, 600), percent: 50, current: 2, want: 3, seen: 60},
		{name: "tolerates a tenth", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(550, 550), percent: 50, current: 2, want: 2, seen: 55},
		{name: "and a tenth less", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(450, 450), percent: 50, current: 2, want: 2, seen: 45},
		{name: "counts ready pods, not those of the spec", pods: []*corev1.Pod{testPod("a")}, used: values(1000), percent: 50, current: 5, want: 2, seen: 100},
		{name: "no pods", used: values(1), percent: 50, current: 2, err: "no pods returned by selector while calculating replica count"},
		{name: "no request", pods: []*corev1.Pod{testPod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })},
			used: values(1), percent: 50, current: 1, err: "missing request for cpu in container c of Pod a"},
		{name: "all pods pending", pods: []*corev1.Pod{testPod("a", pending)}, used: values(1), percent: 50, current: 1,
			err: "did not receive metrics for targeted pods (pods might be unready)"},
		{name: "other pods' metrics only", pods: []*corev1.Pod{testPod("z")}, used: values(5), percent: 50, current: 1, err: "no metrics returned matched known pods"},
		{name: "a missing pod uses nothing on the way up", pods: []*corev1.Pod{testPod("a"), testPod("b"), testPod("c")}, used: values(1000, 1000, -1),
			percent: 50, current: 3, want: 4, seen: 100},
		{name: "which may keep the number", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(900, -1), percent: 50, current: 2, want: 2, seen: 90},
		{name: "a missing pod uses all on the way down", pods: []*corev1.Pod{testPod("a"), testPod("b"), testPod("c"), testPod("d")}, used: values(100, 100, 100, -1),
			percent: 50, current: 4, want: 3, seen: 10},
		{name: "or the target above 100 percent", pods: []*corev1.Pod{testPod("a"), testPod("b")}, used: values(100, -1), percent: 200, current: 2, want: 2, seen: 10},
		{name: "an unready pod uses nothing on the way up", pods: []*corev1.Pod{testPod("a"), testPod("b", pending)}, used: values(1500, -1),
			percent: 50, current: 2, want: 3, seen: 150},
		{name: "and doesn't count on the way down", pods: []*corev1.Pod{testPod("a"), testPod("b"), testPod("c", pending)}, used: values(200, 200, -1),
			percent: 50, current: 3, want: 1, seen: 20},
		{name: "failed and ending pods don't count", pods: []*corev1.Pod{testPod("a"), testPod("b", failed), testPod("c", deleting)}, used: values(1000, 9000, 9000),
			percent: 50, current: 1, want: 2, seen: 100},
		{name: "a pod that became ready before its window", pods: []*corev1.Pod{testPod("a"), testPod("b", fresh)}, used: values(500, 5000), percent: 50, current: 2, want: 11, seen: 275},
		{name: "assumed values never turn the direction", pods: []*corev1.Pod{testPod("a"), testPod("b"), testPod("c"), testPod("d")}, used: values(600, -1, -1, -1),
			percent: 50, current: 4, want: 4, seen: 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := podMetric{resource: corev1.ResourceCPU, replicas: c.current, pods: c.pods, samples: c.used, tolerances: tolerances{0.1, 0.1}, now: noon}
			m.target = func() (podTarget, error) {
				r, err := requestsOf(c.pods, "", corev1.ResourceCPU)
				return utilizationTarget{c.percent, r}, err
			}
			got, seen, err := m.desired()
			if text := message(err); text != c.err || got != c.want || seen.utilization != c.seen {
				t.Errorf("got %d of %d%%, error %q; want %d of %d%%, error %q", got, seen.utilization, text, c.want, c.seen, c.err)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAverageValue: a target in the metric's own unit.
func TestAverageValue(t *testing.T) {
	for _, c := range []struct {
		name    string
		pods    []*corev1.Pod
		used    samples
		current int32
		want    int32
		seen    int64
	}{
		{"grows", []*corev1.Pod{testPod("a"), testPod("b"), testPod("c")}, values(20000, 10000, 30000), 3, 4, 20000},
		{"tolerates", []*corev1.Pod{testPod("a"), testPod("b")}, values(15000, 16000), 2, 2, 15500},
		{"shrinks", []*corev1.Pod{testPod("a"), testPod("b"), testPod("c")}, values(5000, 5000, 5000), 3, 1, 5000},
		{"a missing pod has the target on the way down", []*corev1.Pod{testPod("a"), testPod("b"), testPod("c")}, values(5000, 5000, -1), 3, 2, 5000},
		{"an unready pod counts unless the metric is CPU", []*corev1.Pod{testPod("a"), testPod("b", started(time.Minute, time.Minute, corev1.ConditionFalse))}, values(30000, 30000), 2, 4, 30000},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := podMetric{replicas: c.current, pods: c.pods, samples: c.used, tolerances: tolerances{0.1, 0.1}, now: noon}
			m.target = func() (podTarget, error) { return averageTarget(15000), nil }
			got, seen, err := m.desired()
			if err != nil || got != c.want || seen.average != c.seen {
				t.Errorf("got %d of %d, %v; want %d of %d", got, seen.average, err, c.want, c.seen)
			}
		})
	}
}

// TestCPUOfYoungPods: the CPU usage of a pod counts once it is that of its normal work.
func TestCPUOfYoungPods(t *testing.T) {
	for _, c := range []struct {
		name string
		pod  func(*corev1.Pod)
		want bool
	}{
		{"old and ready", func(*corev1.Pod) {}, true},
		{"no start time", func(p *corev1.Pod) { p.Status.StartTime = nil }, false},
		{"no condition Ready", func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		{"young, ready for longer than the window", started(time.Minute, 20*time.Second, corev1.ConditionTrue), true},
		{"young, ready for the window", started(time.Minute, 15*time.Second, corev1.ConditionTrue), true},
		{"young, ready since less", started(time.Minute, 14*time.Second, corev1.ConditionTrue), false},
		{"young and not ready", started(time.Minute, 50*time.Second, corev1.ConditionFalse), false},
		{"old, never ready", started(10*time.Minute, 10*time.Minute-20*time.Second, corev1.ConditionFalse), false},
		{"old, not ready any more", started(10*time.Minute, 9*time.Minute, corev1.ConditionFalse), true},
		{"at the end of the initialization", started(cpuInitializationPeriod, time.Second, corev1.ConditionTrue), true},
	} {
		if got := cpuCounts(testPod("a", c.pod), sample{noon, 15 * time.Second, 1}, noon); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	p := testPod("a", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Resources: requests("200m")})
		p.Spec.InitContainers = []corev1.Container{
			{Name: "first", Resources: requests("5")}, {Name: "sidecar", Resources: requests("50m"), RestartPolicy: &always},
		}
	})
	whole := testPod("a", func(p *corev1.Pod) { p.Spec.Resources = new(requests("3")) })
	other := testPod("a", func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	})
	for _, c := range []struct {
		name, container string
		pod             *corev1.Pod
		want            int64
		err             string
	}{
		{"app containers and sidecars", "", p, 1250, ""},
		{"one container", "d", p, 200, ""},
		{"a sidecar", "sidecar", p, 50, ""},
		{"an init container", "first", p, 0, "container first not found in Pod a"},
		{"of the pod", "", whole, 3000, ""},
		{"of its container", "c", whole, 1000, ""},
		{"of the pod, without", "", other, 0, "missing pod-level request for cpu in Pod a"},
	} {
		got, err := requestsOf([]*corev1.Pod{c.pod}, c.container, corev1.ResourceCPU)
		if message(err) != c.err || got["a"] != c.want {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}

// TestSharedMetric: metrics with one value for all pods.
func TestSharedMetric(t *testing.T) {
	ready := []*corev1.Pod{testPod("a"), testPod("b"), testPod("c", pending)}
	for _, c := range []struct {
		name          string
		value, target int64
		replicas      int32
		pods          []*corev1.Pod
		want          int32
		err           string
	}{
		{"grows by the ready pods", 33000, 15000, 3, ready, 5, ""},
		{"tolerates", 16000, 15000, 3, ready, 3, ""},
		{"from zero", 33000, 15000, 0, nil, 3, ""},
		{"no pods", 33000, 15000, 3, nil, 0, "unable to calculate ready pods: no pods returned by selector while calculating replica count"},
		{"too much", math.MaxInt64, 1, 3, ready, math.MaxInt32, ""},
	} {
		got, err := sharedMetric{c.value, c.target, tolerances{0.1, 0.1}}.desired(c.replicas, c.pods)
		if message(err) != c.err || got != c.want {
			t.Errorf("%s: got %d, %v", c.name, got, err)
		}
	}
	for _, c := range []struct {
		name          string
		value, target int64
		replicas      int32
		want          int32
		average       int64
	}{
		{"grows", 9000, 2000, 3, 5, 3000},
		{"tolerates", 6100, 2000, 3, 3, 2034},
		{"nothing", 0, 2000, 0, 0, 0},
		{"too much", math.MaxInt64, 1, 2, math.MaxInt32, math.MaxInt64},
	} {
		got, average := sharedMetric{c.value, c.target, tolerances{0.1, 0.1}}.desiredPerPod(c.replicas)
		if got != c.want || average != c.average {
			t.Errorf("per pod, %s: got %d of %d", c.name, got, average)
		}
	}
	if got := sum([]int64{math.MaxInt64, 1}); got != math.MaxInt64 {
		t.Errorf("sum of too much: %d", got)
	}
}
