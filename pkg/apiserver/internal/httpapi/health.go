package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/logs"
)

// checks returns the checks of the server's health in the order of the response. ready adds those of /readyz.
func (s *Handler) checks(ready bool) []health.Check {
	out := []health.Check{
		health.Ping,
		logs.Check,
		{Name: "etcd", Run: s.config.Healthy},
		{Name: "poststarthook/bootstrap-system-objects", Run: func(context.Context) error {
			select {
			case <-s.config.Ready:
				return nil
			default:
				return errors.New("not finished")
			}
		}},
	}
	if ready {
		out = append(out, health.Check{Name: "shutdown", Run: func(context.Context) error {
			if s.config.Stopping.Err() != nil {
				return errors.New("process is shutting down")
			}
			return nil
		}})
	}
	return out
}

// health serves /healthz, /livez and /readyz, and each check below them.
func (s *Handler) health(w http.ResponseWriter, r *http.Request) {
	s.healths.Serve(w, r, s.checks(split(r.URL.Path)[0] == "readyz"))
}
