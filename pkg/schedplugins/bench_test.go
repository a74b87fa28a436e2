package schedplugins

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// BenchmarkCluster schedules pods of 1,000 nodes through an API server in the same process.
func BenchmarkCluster(b *testing.B) {
	got := bindAll(b, b.N, nil)
	b.ReportMetric(float64(b.N)/got.took.Seconds(), "pods/s")
	b.ReportMetric(float64(b.N)/got.decided.Seconds(), "decisions/s")
}

// BenchmarkDecisions compares the throughput of BenchmarkCluster with decisions to that without. Each iteration is a round of both, one after the
// other, in alternating order, so that other work on the machine affects both. The first round is not counted. The ratios are medians of the rounds.
func BenchmarkDecisions(b *testing.B) {
	const pods = 10000
	rounds := map[bool][]bindTimes{}
	for i := range b.N + 1 {
		for _, with := range []bool{i%2 == 0, i%2 != 0} {
			got := bindAll(b, pods, func(cfg *scheduler.Config) { cfg.NoDecisions = !with })
			if i > 0 {
				rounds[with] = append(rounds[with], got)
			}
		}
	}
	ratio := func(of func(bindTimes) time.Duration) float64 {
		var out []float64
		for i := range rounds[true] {
			out = append(out, float64(of(rounds[true][i]))/float64(of(rounds[false][i])))
		}
		slices.Sort(out)
		return (out[(len(out)-1)/2] + out[len(out)/2]) / 2
	}
	sum := func(of []bindTimes) (total time.Duration) {
		for _, p := range of {
			total += p.took
		}
		return total
	}
	b.ReportMetric(float64(pods*b.N)/sum(rounds[true]).Seconds(), "pods/s")
	b.ReportMetric(float64(pods*b.N)/sum(rounds[false]).Seconds(), "pods/s-without")
	b.ReportMetric(100/ratio(func(p bindTimes) time.Duration { return p.took }), "%-throughput")
	b.ReportMetric(100*ratio(func(p bindTimes) time.Duration { return p.cpu }), "%-cpu")
}

// bindTimes are the times until all pods of a benchmark were bound, and until the scheduler had decided about all, and the processor time of the
// process.
type bindTimes struct{ took, decided, cpu time.Duration }

// bindAll starts a scheduler in a cluster of 1,000 nodes and n pods, and waits until all are bound.
func bindAll(b *testing.B, n int, change func(*scheduler.Config)) bindTimes {
	b.Helper()
	tb := &scope{TB: b}
	defer tb.end()
	c := newCluster(tb)
	for i := range 1000 {
		c.node(fmt.Sprintf("n%04d", i), "64")
	}
	for i := range n {
		c.pod(fmt.Sprintf("p%06d", i), "100m")
	}
	b.ResetTimer()
	began, cpu := time.Now(), cpuTime(b)
	decided := make(chan time.Duration, 2*n)
	c.start(func(cfg *scheduler.Config) {
		cfg.Decided = func(_, _ string) { decided <- time.Since(began) }
		if change != nil {
			change(cfg)
		}
	})
	var out bindTimes
	for range n {
		out.decided = <-decided
	}
	for {
		left := 0
		for _, p := range c.pods.List("default", nil) {
			if p.Spec.NodeName == "" {
				left++
			}
		}
		if left == 0 && len(c.pods.List("default", nil)) == n {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	out.took, out.cpu = time.Since(began), cpuTime(b)-cpu
	return out
}

// scope is a test whose cleanups run before its end.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// cpuTime returns the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkWasm schedules equal pods on 1,000 nodes in a sandbox, with the filter and the score of the example module, whose results are cached or not.
func BenchmarkWasm(b *testing.B) {
	path := buildModule(b, "../../examples/wasm")
	for name, conf := range map[string]string{"Cached": withCache(path), "NotCached": wasmConfig(path, "")} {
		b.Run(name, func(b *testing.B) {
			var nodes []*corev1.Node
			for i := range 1000 {
				nodes = append(nodes, someNode(fmt.Sprintf("n-%d", i%100), func(n *corev1.Node) { n.Name = fmt.Sprintf("%d-%d", i/100, i%100) }))
			}
			box, err := scheduler.NewSandbox(b.Context(), scheduler.Simulation{Registry: patient(), Timeouts: patience, Config: config(b, conf), Nodes: nodes}, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer box.Close(b.Context())
			b.ResetTimer()
			for i := range b.N {
				if got, err := box.Schedule(b.Context(), somePod(fmt.Sprintf("p-%d", i), "")); err != nil || got.Node == "" {
					b.Fatal(got.Message, err)
				}
			}
		})
	}
}
