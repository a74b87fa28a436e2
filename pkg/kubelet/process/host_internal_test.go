package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// TestStopAllOfEndingSupervisor: a supervisor that ends because it has nothing to do may not take a request that it has accepted.
func TestStopAllOfEndingSupervisor(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	h := &Host{root: t.TempDir(), clock: clock.Real(), cancel: func() {}, ended: ended}
	if err := os.MkdirAll(h.path(filepath.Dir(wire.SocketFile)), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := wire.Listen(h.path(wire.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			conn.Close()
		}
		l.Close()
		os.Remove(h.path(wire.SocketFile))
	}()
	if err := h.StopAll(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
