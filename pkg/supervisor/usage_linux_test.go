package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUsedByCgroup: the CPU time of a cgroup, and its memory without pages that the kernel can drop.
func TestUsedByCgroup(t *testing.T) {
	g := cgroup(t.TempDir())
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(string(g), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu.stat", "usage_usec 2500000\nuser_usec 2000000\n")
	write("cgroup.procs", "")
	if got, want := g.used(), (resources{cpu: 2500 * time.Millisecond}); got != want {
		t.Errorf("without the memory controller and processes: got %+v, want %+v", got, want)
	}
	write("memory.current", "9000\n")
	write("memory.stat", "anon 1\ninactive_file 5000\nactive_file 3\n")
	if got, want := g.used(), (resources{cpu: 2500 * time.Millisecond, memory: 4000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := noCgroup.used(); got != (resources{}) {
		t.Errorf("no cgroup: %+v", got)
	}
}

// TestUsedByProcess: this process has used some memory; one that does not exist, none.
func TestUsedByProcess(t *testing.T) {
	if got := usedBy(os.Getpid()); got.memory < 1<<20 || got.cpu < 0 {
		t.Errorf("this process: %+v", got)
	}
	if got := usedBy(1 << 30); got != (resources{}) {
		t.Errorf("no process: %+v", got)
	}
}
