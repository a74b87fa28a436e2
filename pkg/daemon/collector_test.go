package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestPacer(t *testing.T) {
	const mib = 1 << 20
	p, now := pacer{growth: leastGrowth}, processorTime{}
	next := func(live uint64, share float64) int { // share of the collector since the last call
		now.collector += share
		now.rest += 1 - share
		return p.next(live*mib, now)
	}
	for live, want := range map[uint64]int{0: 100, 48: 100, 49: 97, 96: 50, 192: 25, 10_000: 25} {
		if got := next(live, 0.15); got != want {
			t.Errorf("%d MiB: got %d, want %d", live, got, want)
		}
	}
	if got := next(96, 0.3); got != 75 {
		t.Errorf("a busy collector: got %d, want 75", got)
	}
	for range 10 {
		next(96, 0.5)
	}
	if got := next(192, 0.15); got != 50 {
		t.Errorf("the most: got %d, want 50", got)
	}
	for range 10 {
		next(96, 0.01)
	}
	if got := next(96, 0.15); got != 50 {
		t.Errorf("a calm collector: got %d, want 50", got)
	}
	if got := p.next(96*mib, now); got != 50 {
		t.Errorf("without any time: got %d, want 50", got)
	}
	if used := usedTime(); used.collector < 0 || used.rest < 0 {
		t.Errorf("the runtime reports %v", used)
	}
}

// TestBoundGarbage lets the heap grow and shrink, and looks at the percent after the collections.
func TestBoundGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- boundGarbage(ctx, func() {}) }()
	percent := func() int {
		samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(samples)
		return int(samples[0].Value.Uint64())
	}
	until := func(holds func(int) bool) {
		for t.Context().Err() == nil && !holds(percent()) {
			runtime.GC()
			runtime.Gosched()
		}
	}
	large := make([]byte, 2*mostGrowth)
	until(func(n int) bool { return n <= 50 })
	runtime.KeepAlive(large)
	large = nil
	until(func(n int) bool { return n == 100 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
