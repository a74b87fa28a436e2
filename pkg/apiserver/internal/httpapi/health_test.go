package httpapi

import (
	"slices"
	"testing"

	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/logs/logstest"
)

// TestBlockedLog checks that the server is unhealthy while its log is blocked.
func TestBlockedLog(t *testing.T) {
	checks := (&Handler{}).checks(false)
	log := checks[slices.IndexFunc(checks, func(c health.Check) bool { return c.Name == "log" })]
	if err := log.Run(t.Context()); err != nil {
		t.Error(err)
	}
	logstest.Blocked(t, func() {
		if err := log.Run(t.Context()); err == nil {
			t.Error("the check passes while the log is blocked")
		}
	})
}
