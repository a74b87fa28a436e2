package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

const (
	memoryEvery = time.Minute
	// idleBytes is what an idle daemon allocates in memoryEvery at most: renewed Leases, and Events that are read to find the
	// expired ones.
	idleBytes = 256 << 20
	// spareBytes is the memory beyond the live heap that an idle daemon keeps.
	spareBytes = 32 << 20
)

// memoryUse is the memory of the process.
type memoryUse struct {
	allocated uint64 // since the start
	live      uint64 // in use at the last garbage collection
	held      uint64 // obtained from the system
}

func readMemory() memoryUse {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return memoryUse{
		allocated: samples[0].Value.Uint64(), live: samples[1].Value.Uint64(),
		held: samples[2].Value.Uint64() - samples[3].Value.Uint64(),
	}
}

// unused reports whether the process holds memory that an idle daemon does not need. before is its memory an interval ago.
func (m memoryUse) unused(before memoryUse) bool {
	return m.allocated-before.allocated < idleBytes && m.held > m.live+spareBytes
}

// releaseMemory returns unused memory to the system until ctx ends. After a burst of work Go's runtime would keep up to
// twice the memory that is in use.
func releaseMemory(ctx context.Context, c clock.Clock) error {
	before := readMemory()
	for clock.Sleep(ctx, c, memoryEvery) == nil {
		now := readMemory()
		if now.unused(before) {
			debug.FreeOSMemory()
			now = readMemory()
		}
		before = now
	}
	return nil
}
