// Package health serves the checks of a component's health, as Kubernetes' components do at /healthz, /livez and /readyz.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Check is one check of a component's health.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Ping is the check of a component that responds.
var Ping = Check{"ping", func(context.Context) error { return nil }}

// Serve responds with the outcome of the checks, or of the one that the path names below that of all: /readyz/NAME. The reasons of failures are only logged.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, checks []Check) {
	kind, one, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	_, verbose := query["verbose"]
	var text strings.Builder
	failed, found := false, false
	for _, c := range checks {
		if one != "" && one != c.Name {
			continue
		}
		found = true
		if slices.Contains(query["exclude"], c.Name) {
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Run(r.Context())
		if one == "" {
			s.record(kind, c.Name, err)
		}
		if err != nil {
			slog.WarnContext(r.Context(), "health check failed", "check", c.Name, "err", err)
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
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
