// Package logstest blocks the log of the process for tests of what depends on it.
package logstest

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/logs"
)

// Blocked calls f while the log has been blocked for two minutes, in virtual time.
func Blocked(t *testing.T, f func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := slog.Default()
		defer klog.ClearLogger()
		defer slog.SetDefault(before)
		read, write := io.Pipe()
		if err := logs.SetUp(write, clock.Real(), "info"); err != nil {
			t.Fatal(err)
		}
		go slog.Info("line")
		time.Sleep(2 * time.Minute)
		slog.SetDefault(slog.New(slog.DiscardHandler)) // f logs, too
		f()
		if _, err := read.Read(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
