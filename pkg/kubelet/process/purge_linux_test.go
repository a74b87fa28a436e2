package process_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// found is a process that named has found.
type found struct {
	pid     int
	command string
}

// named lists the processes with text in their command line.
func named(t *testing.T, text string) []found {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []found
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, found{pid, string(b)})
		}
	}
	return out
}

// TestPurgeDuringSupervisorStart purges hosts whose supervisors are still starting.
func TestPurgeDuringSupervisorStart(t *testing.T) {
	const timeout = 2 * time.Second // a supervisor that is left over ends when it is idle, but later
	for range 5 {
		root := t.TempDir()
		h, err := open(root)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(timeout); len(named(t, root)) == 0; {
			if time.Now().After(end) {
				t.Fatal("no supervisor is started")
			}
		}
		if err := purge(h, root); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(timeout); len(named(t, root)) > 0; {
			if time.Now().After(end) {
				t.Fatalf("%+v is left", named(t, root))
			}
		}
	}
}

// keeper returns the PID of the supervisor's keeper, or 0 if there is none.
func (m *machine) keeper() int {
	m.Helper()
	for _, p := range named(m.T, filepath.Join(m.root, "runtime")) {
		if strings.HasPrefix(p.command, "minikctl: keeper\x00") {
			return p.pid
		}
	}
	return 0
}
