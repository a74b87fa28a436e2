// Package measured marks the checks that depend on the machine: on its speed, its load, and the memory that a process
// takes on it. `make test` skips them, so that its result is the same on every machine; `make measure` sets
// MINIKCTL_MEASURE and runs them.
package measured

import (
	"os"
	"testing"
)

// Enabled reports whether checks that depend on the machine run.
func Enabled() bool { return os.Getenv("MINIKCTL_MEASURE") != "" }

// Only skips a test that only measures, unless checks that depend on the machine run.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("measures the machine as well as the program: make measure runs it")
	}
}
