//go:build !linux || !(amd64 || arm64)

package badger_test

import "testing"

// observedEnv is set for processes that are observed: none.
const observedEnv = "MINIKCTL_TEST_OBSERVED"

func runFiltered() {}

func TestPowerLoss(t *testing.T) {
	t.Skip("the test observes a process by seccomp user notification, which only Linux has")
}
