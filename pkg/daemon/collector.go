package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapGrowth is how much the heap of a large daemon may grow between two collections, in bytes.
	heapGrowth = 128 << 20
	// leastPercent is the lowest GC percent: the collector would else work all the time.
	leastPercent = 25
)

// collectorPercent returns the GC percent for a number of live bytes. Go's default lets the heap grow by as much again as is live. That is
// right for small heaps; a large one would take twice its size.
func collectorPercent(live uint64) int {
	const whole = 100
	if live <= heapGrowth {
		return whole
	}
	return max(leastPercent, int(whole*heapGrowth/live))
}

// boundGarbage sets the GC percent after each collection until ctx ends. A percent in $GOGC is the user's, and stays.
func boundGarbage(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	collected := make(chan struct{}, 1)
	afterCollection(ctx, collected)
	percent := collectorPercent(0)
	defer debug.SetGCPercent(percent)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
		}
		if next := collectorPercent(liveBytes()); next != percent {
			debug.SetGCPercent(next) // stops the program for a moment
			percent = next
		}
	}
}

// afterCollection sends to collected after each garbage collection until ctx ends.
func afterCollection(ctx context.Context, collected chan<- struct{}) {
	type sentinel struct{ p *int } // with a pointer: the allocator puts small objects without one together, which keeps them alive
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		if ctx.Err() != nil {
			return
		}
		select {
		case collected <- struct{}{}:
		default:
		}
		afterCollection(ctx, collected)
	})
}

// liveBytes returns what the last collection has found in use.
func liveBytes() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
