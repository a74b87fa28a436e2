// Package serving is the scheduler's own HTTPS server. As kube-scheduler on its secure port, it serves the scheduler's health, the metrics of the
// process, the configuration in force, and profiles, to clients with the right to the path.
package serving

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/review"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/logs"
	"github.com/minikctl/minikctl/pkg/zpages"
)

// Scheduler is what the server shows. Its methods are safe for concurrent use.
type Scheduler interface {
	// Ready reports whether the scheduler schedules.
	Ready() bool
	// Configuration returns the configuration in force as JSON, nil if there is none yet, and whether it enables profiling.
	Configuration() (raw []byte, profiling bool)
	// Metrics returns a collector of the scheduler's metrics for one request. It waits for the scheduling loop until ctx ends.
	Metrics(ctx context.Context) prometheus.Collector
}

// Server serves requests about a scheduler.
type Server struct {
	Listener  net.Listener
	TLS       *tls.Config   // verifies the certificates that clients show by the cluster's authority
	Client    client.Client // under the scheduler's identity: reviews tokens and rights
	Scheduler Scheduler
	Clock     clock.Clock       // of the machine
	Flags     map[string]string // of the process, for /flagz
}

// Run serves until ctx ends, and then closes all connections.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler: s.handler(ctx), TLSConfig: s.TLS, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:    log.New(io.Discard, "", 0), // of failed handshakes
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ServeTLS(s.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("scheduler server: %w", err)
	}
	return nil
}

// handler serves the paths. running ends when the server stops.
func (s *Server) handler(running context.Context) http.Handler {
	live := []health.Check{health.Ping}
	ready := []health.Check{
		{Name: "shutdown", Run: func(context.Context) error { return running.Err() }},
		{Name: "sched-handler-sync", Run: func(context.Context) error {
			if !s.Scheduler.Ready() {
				return errors.New("handlers are not fully synchronized")
			}
			return nil
		}},
	}
	mux := http.NewServeMux()
	healths := health.NewServer()
	mux.HandleFunc("/metrics/slis", healths.Metrics)
	paths := []string{"/metrics", "/configz", "/statusz", "/flagz"}
	for path, checks := range map[string][]health.Check{"/healthz": live, "/livez": live, "/readyz": ready} {
		serve := func(w http.ResponseWriter, r *http.Request) { healths.Serve(w, r, checks) }
		mux.HandleFunc(path, serve)
		mux.HandleFunc(path+"/", serve)
		paths = append(paths, path)
	}
	mux.HandleFunc("/metrics", s.metrics)
	mux.HandleFunc("/configz", s.configz)
	for path, page := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
		"/debug/flags/": logs.Flags,
	} {
		mux.HandleFunc(path, s.debugging(page))
	}
	pages := zpages.New("kube-scheduler", s.Clock, s.Flags, paths)
	mux.HandleFunc("/statusz", pages.Statusz)
	mux.HandleFunc("/flagz", pages.Flagz)
	return s.authorized(mux)
}

// configz serves the configuration in the form of Kubernetes' components.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	raw, _ := s.Scheduler.Configuration()
	if raw == nil {
		http.Error(w, "the scheduler has not started", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]json.RawMessage{"componentconfig": raw}) // fails only when the client has disconnected
}

// debugging serves a page unless the configuration has enableProfiling: false.
func (s *Server) debugging(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, enabled := s.Scheduler.Configuration(); !enabled {
			http.NotFound(w, r)
			return
		}
		serve(w, r)
	}
}

// publicPaths are the paths that need no right, as those of kube-scheduler by default.
var publicPaths = [...]string{"/healthz", "/readyz", "/livez"}

// authorized refuses the requests of clients without the right to the path. Administrators need no review.
func (s *Server) authorized(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}
		if !review.Anonymous(r) {
			var ok bool
			var err error
			if user, ok, err = review.User(r.Context(), s.Client, r); err != nil || !ok {
				refuse(w, apierrors.NewUnauthorized("Unauthorized"))
				return
			}
		}
		if !slices.Contains(publicPaths[:], r.URL.Path) && !slices.Contains(user.Groups, "system:masters") {
			verb := strings.ToLower(r.Method)
			attributes := &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: verb}
			allowed, err := review.Allowed(r.Context(), s.Client, user, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: attributes})
			if err != nil {
				refuse(w, apierrors.NewInternalError(err))
				return
			}
			if !allowed {
				reason := fmt.Sprintf("User %q cannot %s path %q", user.Username, verb, r.URL.Path)
				refuse(w, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(reason)))
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// refuse writes an error as the API server does.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // fails only when the client has disconnected
}
