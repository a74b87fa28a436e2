package daemon

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/supervisor/trim"
)

const (
	memoryEvery = 30 * time.Second
	// idleBytes is what an idle daemon allocates in memoryEvery at most, for renewed Leases.
	idleBytes = 64 << 20
	// burstBytes is how much an idle daemon must have allocated since the last release of memory for another release.
	burstBytes = 128 << 20
	// quietBytes is what a daemon without any client allocates in memoryEvery at most. restBytes is how much such a daemon must have allocated
	// since the last release for another one, so that what the end of a burst has left is released, too.
	quietBytes = 8 << 20
	restBytes  = 16 << 20
)

// How many bytes of files, those of the program and of the store, a busy and an idle daemon have in memory. The kernel adds pages
// around each that the process touches, and never takes them away while there is free memory.
const (
	busyFiles = 64 << 20
	idleFiles = 24 << 20
	// trimEvery is the least time between two checks of a busy daemon: some of the pages are mapped again soon.
	trimEvery = time.Second
)

// trimFiles gives up the pages of files if there are more than limit bytes of them.
func (d *Daemon) trimFiles(limit uint64) {
	if trim.Resident() > limit {
		trim.Now()
		trim.Files(d.paths.Store)
	}
}

// boundFiles returns a function that bounds the pages of files of a busy daemon.
func (d *Daemon) boundFiles() func() {
	var last time.Time
	return func() {
		if now := d.machine.Now(); now.Sub(last) >= trimEvery {
			last = now
			d.trimFiles(busyFiles)
		}
	}
}

// allocated returns the bytes that the process has allocated since its start.
func allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

// idleMemory decides when memory is released: when the daemon is idle, once after each burst of work.
type idleMemory struct {
	before   uint64 // allocated at the last check
	released uint64 // allocated at the last release
}

// check reports whether the daemon is idle, and whether memory has to be released. now is what was allocated so far.
func (m *idleMemory) check(now uint64) (idle, due bool) {
	recent, since := now-m.before, now-m.released
	m.before = now
	idle = recent < idleBytes
	return idle, idle && since >= burstBytes || recent < quietBytes && since >= restBytes
}

// releaseMemory returns unused memory to the system when the daemon is idle after a burst of work, until ctx ends. The garbage
// collector would keep as much again as is in use, and the kernel the pages of the store's files.
func (d *Daemon) releaseMemory(ctx context.Context) error {
	start := allocated()
	m := idleMemory{before: start, released: start}
	for clock.Sleep(ctx, d.machine, memoryEvery) == nil {
		idle, due := m.check(allocated())
		if due {
			for _, release := range d.releases {
				release()
			}
			debug.FreeOSMemory()
			m.released = allocated() // without what the releases have copied
		}
		switch {
		case due:
			d.trimFiles(0)
		case idle:
			d.trimFiles(idleFiles)
		}
	}
	return nil
}

// collectorShare is the part of the memory limit, in percent, at which the garbage collector works to keep the process. The
// rest is room for what it has not collected yet, and for the API server to refuse requests in time.
const collectorShare = 80

// limitMemory sets the limit of the garbage collector, and returns the limit of the process in bytes, 0 for none: that of the
// setting, else $GOMEMLIMIT, else that of the process's cgroup.
func limitMemory(setting string) (uint64, error) {
	limit, err := parseMemory(setting)
	if err != nil {
		return 0, err
	}
	if limit == 0 {
		if own := debug.SetMemoryLimit(-1); own != math.MaxInt64 { // of $GOMEMLIMIT
			limit = uint64(own)
		}
	}
	if limit == 0 {
		limit = cgroupLimit("/")
	}
	if limit > 0 {
		debug.SetMemoryLimit(int64(limit / 100 * collectorShare))
	}
	return limit, nil
}

// parseMemory returns a memoryLimit in bytes, 0 for "".
func parseMemory(setting string) (uint64, error) {
	if setting == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(setting)
	if err != nil {
		return 0, fmt.Errorf("memoryLimit: %q is not a quantity such as 2Gi", setting)
	}
	if q.Value() < minMemory {
		return 0, fmt.Errorf("memoryLimit: %s is less than %d Mi", setting, minMemory>>20)
	}
	return uint64(q.Value()), nil
}

// minMemory is the least memory with which a cluster works.
const minMemory = 128 << 20

// cgroupLimit returns the smallest memory limit of the process's cgroup and those above it, 0 for none. root is the root of the
// file system.
func cgroupLimit(root string) (limit uint64) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy:controllers:path
		if len(f) != 3 {
			continue
		}
		dir, file := filepath.Join(root, "sys/fs/cgroup"), "memory.max"
		switch {
		case slices.Contains(strings.Split(f[1], ","), "memory"): // version 1
			dir, file = filepath.Join(dir, "memory"), "memory.limit_in_bytes"
		case f[1] != "":
			continue
		}
		for path := filepath.Join("/", f[2]); ; path = filepath.Dir(path) {
			if n := readLimit(filepath.Join(dir, path, file)); n > 0 && (limit == 0 || n < limit) {
				limit = n
			}
			if path == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit returns the limit in a file of a cgroup, 0 for none.
func readLimit(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // version 2 has "max" for none, version 1 a huge number
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}
