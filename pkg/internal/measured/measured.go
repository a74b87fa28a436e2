// Package measured marks the checks that depend on the machine: on how fast it is, how busy, and how much memory a
// process takes there. `make test` holds only what is right or wrong anywhere; `make measure` sets MINIKCTL_MEASURE
// and runs the marked checks too.
package measured

import (
	"os"
	"testing"
)

// Enabled reports whether checks that depend on the machine run.
func Enabled() bool { return os.Getenv("MINIKCTL_MEASURE") != "" }

// Only skips a test that does nothing but measure, unless checks that depend on the machine run.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("measures the machine as well as the program: make measure runs it")
	}
}
