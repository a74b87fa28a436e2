package daemon

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/minikctl/minikctl/pkg/apiserver"
)

// health records whether a service runs.
type health struct{ running atomic.Bool }

var errNotRunning = errors.New("not running")

// of returns run with its start and end recorded in h.
func (h *health) of(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		h.running.Store(true)
		defer h.running.Store(false)
		return run(ctx)
	}
}

// check returns nil while the service runs, and otherwise errNotRunning.
func (h *health) check(context.Context) error {
	if h.running.Load() {
		return nil
	}
	return errNotRunning
}

// components returns the health checks of this process's parts by their names in ComponentStatuses.
func (d *Daemon) components() map[string]apiserver.Component {
	out := map[string]apiserver.Component{}
	if d.cfg.Runs("controllers") {
		out["controller-manager"] = d.controllers.check
	}
	if d.cfg.Runs("scheduler") {
		out["scheduler"] = d.scheduler.check
	}
	return out
}
