package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// named lists the processes with text in their command line.
func named(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
			out = append(out, string(b))
		}
	}
	return out
}

// TestPurgeAtOnce purges hosts whose supervisors are still starting.
func TestPurgeAtOnce(t *testing.T) {
	const patience = 2 * time.Second // a supervisor that is left over ends when it is idle, but later
	for range 5 {
		root := t.TempDir()
		h, err := open(root)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); len(named(t, root)) == 0; {
			if time.Now().After(end) {
				t.Fatal("no supervisor is started")
			}
		}
		if err := purge(h, root); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(patience); len(named(t, root)) > 0; {
			if time.Now().After(end) {
				t.Fatalf("%q is left", named(t, root))
			}
		}
	}
}
