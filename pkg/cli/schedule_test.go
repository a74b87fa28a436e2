package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScheduleWithoutPods checks that the error of a command without pods names the flags that it has.
func TestScheduleWithoutPods(t *testing.T) {
	for args, want := range map[string]string{"schedule": "error: must specify -f or --drain\n", "schedule compare a.yaml": "error: must specify -f\n"} {
		if code, _, errOut := run(t, append([]string{"minikctl"}, strings.Fields(args)...)...); code != 1 || errOut != want {
			t.Errorf("%s: got %d, %q, want %q", args, code, errOut, want)
		}
	}
}

// TestDrainWithoutPods checks that a dry run of a drain that moves no pod says so.
func TestDrainWithoutPods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "minikctl", "schedule", "--drain", "a", "--nodes-from", file)
	if code != 0 || !strings.HasPrefix(out, "Nothing to place: ") || strings.Contains(out, "PLACED") {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut := run(t, "minikctl", "schedule", "--drain", "a", "--nodes-from", file, "-o", "json"); code != 0 || !strings.HasPrefix(out, "{") {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
}
