package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// By how much the heap of a large daemon grows between two collections, in bytes: little, unless the collector takes much of the
// processor time.
const (
	leastGrowth = 48 << 20
	mostGrowth  = 96 << 20
)

const (
	defaultPercent = 100 // Go's

	// leastPercent is the lowest GC percent: the collector would else work all the time.
	leastPercent = 25

	// Above highShare of the processor time the collector works less often, below lowShare more often.
	lowShare, highShare = 0.10, 0.25
)

// pacer decides how much the heap grows between two collections.
type pacer struct {
	growth uint64
	before processorTime
}

// processorTime is the processor time that the program has used, in seconds.
type processorTime struct{ collector, rest float64 }

// next returns the GC percent for a number of live bytes. now is the processor time so far. Go's default lets the heap grow by as much
// again as is live. That is right for small heaps; a large one would take twice its size.
func (p *pacer) next(live uint64, now processorTime) int {
	collector, rest := now.collector-p.before.collector, now.rest-p.before.rest
	p.before = now
	switch share := collector / (collector + rest); { // NaN if no time has passed: no case applies
	case share > highShare:
		p.growth = min(mostGrowth, p.growth*3/2)
	case share < lowShare:
		p.growth = max(leastGrowth, p.growth*3/4)
	}
	if live <= p.growth {
		return defaultPercent
	}
	return max(leastPercent, int(100*p.growth/live))
}

// boundGarbage sets the GC percent after each collection until ctx ends, and then calls after. A percent in $GOGC is the user's, and
// stays.
func boundGarbage(ctx context.Context, after func()) error {
	collected := make(chan struct{}, 1)
	afterCollection(ctx, collected)
	p := pacer{growth: leastGrowth, before: usedTime()}
	if os.Getenv("GOGC") == "" {
		percent, inner := defaultPercent, after
		after = func() {
			if next := p.next(liveBytes(), usedTime()); next != percent {
				debug.SetGCPercent(next) // stops the program for a moment
				percent = next
			}
			inner()
		}
		defer debug.SetGCPercent(defaultPercent)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
			after()
		}
	}
}

// usedTime returns the processor time of the process, as the last collection has computed it.
func usedTime() processorTime {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"},
	}
	metrics.Read(samples)
	value := func(i int) float64 { return samples[i].Value.Float64() }
	return processorTime{collector: value(0) - value(1), rest: value(2)}
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
