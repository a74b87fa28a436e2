package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// probe is one of the things that must hold for the server to be healthy.
type probe struct {
	name  string
	ready bool // asked by readyz only
	check func(context.Context, *Server) error
}

// probes lists them in the order in which they are shown.
var probes = []probe{
	{"ping", false, func(context.Context, *Server) error { return nil }},
	{"log", false, func(context.Context, *Server) error { return nil }},
	{"etcd", false, func(ctx context.Context, s *Server) error {
		_, err := s.store.Head(ctx)
		return err
	}},
	{"poststarthook/bootstrap-system-objects", false, func(_ context.Context, s *Server) error {
		select {
		case <-s.ready:
			return nil
		default:
			return fmt.Errorf("not finished")
		}
	}},
	{"shutdown", true, func(_ context.Context, s *Server) error {
		if s.stopping.Err() != nil {
			return fmt.Errorf("process is shutting down")
		}
		return nil
	}},
}

// health answers for /healthz, /livez and /readyz, and for each probe below them.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	parts := split(r.URL.Path)
	kind, one := parts[0], strings.Join(parts[1:], "/")
	query := r.URL.Query()
	_, verbose := query["verbose"]
	var text strings.Builder
	failed, asked := false, false
	for _, p := range probes {
		if p.ready && kind != "readyz" || one != "" && one != p.name {
			continue
		}
		asked = true
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
	case !asked:
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
