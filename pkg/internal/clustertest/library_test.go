package clustertest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// library is the directory of a program that imports minikctl and adds plugins. It is a module of its own.
const library = "../../../examples/plugins"

// TestLibrary builds the program of examples/plugins, as a module that depends on minikctl, and runs scripts with it.
func TestLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("a program that is linked for this test takes half a minute")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "minikctl")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = library
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run(t, "testdata/library/*.txt", program)
}
