// Package apiserver owns the Kubernetes API: it puts an HTTP coat, with TLS, authentication, discovery and content
// negotiation, and an in-process one, without any encoding, over the same verb engine, on a store that nobody else
// touches. Components and users are all its clients.
//
// A Server is made by New, which fails where a start can fail (a taken port, a bad token file), and lives as long as Run.
// What the stages of a request are is written down in three lists: filters (filters.go), the stages of the engine
// (stages.go) and the connectors of subresources (connect.go).
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/aggregate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/definitions"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/virtual"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Config is what a Server needs.
type Config struct {
	Store     store.Store // stays the caller's, to be closed after Run
	Resources []objects.Resource
	Clock     clock.Clock
	Source    *clock.Source
	PKI       *pki.PKI

	Listen    string   // HOST:PORT for HTTPS; port 0 picks one; "" listens on no port
	Hosts     []string // more names and addresses for the serving certificate
	Socket    string   // path of a Unix socket for the local command line; "" for none. Its folder is made private
	TokenFile string   // of static tokens: a line of token,user,uid,"group1,group2" for each; "" for none

	Audit AuditConfig // zero: there is no audit log

	ServiceAddresses netip.Prefix // from which Services get their cluster addresses, IPv4; zero: 10.96.0.0/16

	// PodWarnings says what the nodes will not do of a pod, for Warning headers; nil: nothing.
	PodWarnings func(*corev1.PodSpec) []string
	// Unattended are resources that nobody acts on, which a create is told by a Warning header.
	Unattended []schema.GroupResource

	// Components tells how "scheduler" and "controller-manager" are, where they run in this process.
	Components map[string]Component

	TraceDir   string               // where traces are kept over a restart; "" keeps them in memory only
	TraceBytes int                  // how much of them is kept in memory; 0: 16 MiB
	Metrics    *prometheus.Registry // what /metrics shows; nil: the server's own metrics only
}

// defaultServiceAddresses is what Kubernetes' installers choose.
var defaultServiceAddresses = netip.MustParsePrefix("10.96.0.0/16")

// Server is the API server.
type Server struct {
	podWarnings func(*corev1.PodSpec) []string // nil: none
	unattended  unattended
	clock       clock.Clock
	source      *clock.Source
	chance      *clock.Source // for what leaves no trace in the state, and so must not take from source
	store       store.Store
	pki         *pki.PKI
	rows        rows
	registrar   *definitions.Registrar // nil: no definitions are served
	engine      *verbs.Engine
	virtual     *virtual.Store
	audit       *audit.Log // nil: there is none
	api         verbs.API  // both of them
	stages      stage.Stages
	authn       stage.Authenticator
	issuer      *tokens.Issuer // of ServiceAccount tokens
	kubelets    *connect.Kubelets
	extensions  *aggregate.Extensions
	metrics     metrics
	handler     http.Handler

	tcp, unix  net.Listener
	serviceIP  string // of the Service kubernetes
	running    inflight
	fair       *fair.Limit
	furnishing sync.Mutex // while what a cluster has is made
	trustTold  bool       // guarded by furnishing
	flowStatus flowStatus
	addresses  addresses

	registrations registrations
	ready         chan struct{}
	stopping      context.Context // ends the watches
	stop          context.CancelFunc
}

// New makes the server and opens its listeners.
func New(cfg Config) (_ *Server, err error) {
	s := &Server{podWarnings: cfg.PodWarnings, unattended: cfg.Unattended, clock: cfg.Clock, source: cfg.Source, chance: clock.RandomSource(), store: cfg.Store, pki: cfg.PKI, registrations: newRegistrations(), ready: make(chan struct{})}
	s.stopping, s.stop = context.WithCancel(context.Background()) //nolint:forbidigo // Run ends it
	defer func() {
		if err == nil {
			return
		}
		s.closeListeners()
		if s.virtual != nil {
			s.virtual.Close()
		}
		_ = s.audit.Close() // nothing was told to it
	}()
	if !cfg.ServiceAddresses.IsValid() {
		cfg.ServiceAddresses = defaultServiceAddresses
	}
	s.serviceIP = cfg.ServiceAddresses.Masked().Addr().Next().String()
	s.addresses = newAddresses(cfg.ServiceAddresses)
	cfg.Hosts = append(slices.Clone(cfg.Hosts), s.serviceIP)
	if err := s.build(cfg); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(cfg.Metrics)
	s.fair = s.newLimit()
	s.handler = chain(s.routes(), s.filters())
	if err := s.listen(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes the parts behind the handlers.
func (s *Server) build(cfg Config) error {
	s.rows.builtin(slices.Concat(cfg.Resources, virtual.Rows()))
	var err error
	s.virtual, err = virtual.New(virtual.Config{
		Dir: cfg.TraceDir, Bytes: cfg.TraceBytes, Clock: cfg.Clock, Source: cfg.Source,
		Authorize: func(ctx context.Context, a *stage.Attributes) error { return s.check(ctx, a) },
	})
	if err != nil {
		return err
	}
	if err := s.newEngine(cfg); err != nil {
		return err
	}
	if s.audit, err = audit.Open(cfg.Audit, cfg.Clock, s.chance.UID); err != nil {
		return err
	}
	s.api = s.audit.API(router{engine: s.engine, virtual: s.virtual, components: s.newComponents(cfg.Components)})
	if s.lookup(definitions.Resource) != nil {
		s.registrar = s.newRegistrar()
	}
	s.extensions = s.newExtensions()
	return s.newConnectors(cfg)
}

// Handler returns what serves the API over HTTP. It answers once Run has made the server ready.
func (s *Server) Handler() http.Handler { return s.handler }

// Client returns a client that calls the server directly, as the user who, with agent as its user agent.
func (s *Server) Client(who user.Info, agent string) client.Client {
	return direct.New(s.api, s.lookup, who, agent)
}

// Ready is closed once the server answers requests.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address of the HTTPS listener, "" when there is none.
func (s *Server) Addr() string {
	if s.tcp == nil {
		return ""
	}
	return s.tcp.Addr().String()
}

// drain is how long requests may take to end when the server stops, and linger how long their connections after that.
const (
	drain  = 5 * time.Second
	linger = 50 * time.Millisecond
)

// Run serves until ctx ends, then lets running requests end.
func (s *Server) Run(ctx context.Context) error {
	defer s.stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	base := context.WithoutCancel(ctx)
	engineCtx, stopEngine := context.WithCancel(base)
	defer stopEngine()

	var background sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		background.Go(func() {
			if err := run(engineCtx); err != nil && engineCtx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	part("verb engine", s.engine.Run)
	part("traces", s.virtual.Run)
	servers := s.serve(base, cancel)
	if err := s.prepare(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
	} else if err == nil {
		close(s.ready)
		part("extensions", s.extensions.Run)
		part("APIServices", s.keepRegistrations)
		part("IPAddresses", s.keepAddresses)
		if s.registrar != nil {
			part("custom resources", s.registrar.Run)
		}
	}
	<-ctx.Done()
	s.stop()
	s.shutdown(base, servers)
	s.kubelets.Close()
	stopEngine()
	background.Wait()
	if err := s.audit.Close(); err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// prepare makes what requests need to find.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.createSystemObjects(ctx); err != nil {
		return fmt.Errorf("create the system's objects: %w", err)
	}
	if s.registrar == nil {
		return nil
	}
	return s.registrar.Load(ctx)
}

// shutdown closes the listeners at once, and the connections when no request is running, after drain at the latest.
func (s *Server) shutdown(ctx context.Context, servers []*http.Server) {
	s.closeListeners()
	timer := s.clock.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-s.running.none():
	case <-timer.C():
		slog.WarnContext(ctx, "requests are cut off at shutdown")
	}
	// Answers that are complete may still be on their way out of the buffers. Shutdown alone would take a second on each
	// HTTP/2 connection.
	ctx, cancel := context.WithCancel(ctx)
	defer s.clock.AfterFunc(linger, cancel).Stop()
	for _, srv := range servers {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // the time to linger is over
		}
	}
	cancel()
}
