package daemon

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/minikctl/minikctl/pkg/apiserver"
)

// health knows whether a service runs.
type health struct{ running atomic.Bool }

var errNotRunning = errors.New("not running")

// of returns run, watched.
func (h *health) of(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		h.running.Store(true)
		defer h.running.Store(false)
		return run(ctx)
	}
}

// check tells how the service is; nil when it runs.
func (h *health) check(context.Context) error {
	if h.running.Load() {
		return nil
	}
	return errNotRunning
}

// components are the parts of this process whose health the API server tells, by Kubernetes' names.
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
