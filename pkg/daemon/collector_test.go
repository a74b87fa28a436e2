package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestCollectorPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 100, 128 * mib: 100, 129 * mib: 99, 256 * mib: 50, 400 * mib: 32, 512 * mib: 25, 10_000 * mib: 25} {
		if got := collectorPercent(live); got != want {
			t.Errorf("%d MiB: got %d, want %d", live/mib, got, want)
		}
	}
}

// TestBoundGarbage lets the heap grow and shrink, and looks at the percent after the collections.
func TestBoundGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- boundGarbage(ctx) }()
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
	large := make([]byte, 2*heapGrowth)
	until(func(n int) bool { return n <= 50 })
	runtime.KeepAlive(large)
	large = nil
	until(func(n int) bool { return n == 100 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
