package process

import (
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// TestReadings: the windows over which CPU usage is measured. Each step reads the CPU time of a container that started at 0 s.
func TestReadings(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type step struct {
		at, cpu time.Duration
		milli   int64
		over    time.Duration
		ok      bool
	}
	const s = time.Second
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a young container's window begins at its start", []step{{20 * s, 10 * s, 500, 20 * s, true}}},
		{"of a second at least", []step{{s / 2, s / 4, 0, 0, false}, {3 * s / 2, s, 666, 3 * s / 2, true}}},
		{"an old container takes two readings", []step{{3600 * s, 1800 * s, 0, 0, false}, {3601 * s, 1801 * s, 1000, s, true}}},
		{"readings in short succession have one window", []step{{20 * s, 10 * s, 500, 20 * s, true}, {21 * s, 11 * s, 523, 21 * s, true}, {22 * s, 12 * s, 545, 22 * s, true}}},
		{"regular readings have a window each", []step{{20 * s, 10 * s, 500, 20 * s, true}, {35 * s, 25 * s, 1000, 15 * s, true}, {50 * s, 25 * s, 0, 15 * s, true}}},
		{"a reading long ago begins no window", []step{{20 * s, 10 * s, 500, 20 * s, true}, {120 * s, 15 * s, 0, 0, false}, {121 * s, 16 * s, 1000, s, true}}},
		{"an ended process takes its time along", []step{{20 * s, 10 * s, 500, 20 * s, true}, {35 * s, 5 * s, 0, 15 * s, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m meter
			var total time.Duration
			for i, want := range c.steps {
				u, ok := m.add("c", wire.Usage{At: start.Add(want.at), CPU: want.cpu, Memory: 4096}, start)
				if ok != want.ok {
					t.Fatalf("step %d: %t, want %t", i, ok, want.ok)
				}
				if ok && (u.CPUTime < total || u.CPUTime < want.cpu) {
					t.Errorf("step %d: the CPU time is %v after %v", i, u.CPUTime, total)
				}
				total = u.CPUTime
				if got := u.Resources.Cpu().ScaledValue(-9) / 1e6; ok && (got != want.milli || u.Window != want.over || u.Resources.Memory().Value() != 4096) {
					t.Errorf("step %d: %dm over %v, want %dm over %v", i, got, u.Window, want.milli, want.over)
				}
			}
			m.keep(func(string) bool { return false })
			if len(m.kept) > 0 {
				t.Errorf("still kept: %v", m.kept)
			}
		})
	}
}
