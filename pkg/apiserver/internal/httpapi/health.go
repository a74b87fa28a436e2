package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// probe is one check of the server's health.
type probe struct {
	name  string
	ready bool // checked by readyz only
	check func(context.Context, *Handler) error
}

// probes lists the probes in the order of the response.
var probes = []probe{
	{"ping", false, func(context.Context, *Handler) error { return nil }},
	{"log", false, func(context.Context, *Handler) error { return nil }},
	{"etcd", false, func(ctx context.Context, s *Handler) error {
		return s.config.Healthy(ctx)
	}},
	{"poststarthook/bootstrap-system-objects", false, func(_ context.Context, s *Handler) error {
		select {
		case <-s.config.Ready:
			return nil
		default:
			return fmt.Errorf("not finished")
		}
	}},
	{"shutdown", true, func(_ context.Context, s *Handler) error {
		if s.config.Stopping.Err() != nil {
			return fmt.Errorf("process is shutting down")
		}
		return nil
	}},
}

// health serves /healthz, /livez and /readyz, and each probe below them.
func (s *Handler) health(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.Path)
	kind, one := parts[0], strings.Join(parts[1:], "/")
	query := r.URL.Query()
	_, verbose := query["verbose"]
	var text strings.Builder
	failed, found := false, false
	for _, p := range probes {
		if p.ready && kind != "readyz" || one != "" && one != p.name {
			continue
		}
		found = true
		if slices.Contains(query["exclude"], p.name) {
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", p.name)
			continue
		}
		if err := p.check(r.Context(), s); err != nil {
			slog.WarnContext(r.Context(), "health check failed", "check", p.name, "err", err)
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", p.name)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", p.name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !found:
		http.NotFound(w, r)
	case failed && one != "":
		http.Error(w, "internal server error: "+strings.TrimSpace(text.String()), http.StatusInternalServerError)
	case failed:
		http.Error(w, text.String()+kind+" check failed", http.StatusInternalServerError)
	case verbose && one == "":
		fmt.Fprintf(w, "%s%s check passed\n", text.String(), kind)
	default:
		fmt.Fprint(w, "ok")
	}
}
