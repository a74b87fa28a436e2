// Package apiserver puts together the Kubernetes API server: HTTP and an in-process client over one verb engine, on a store
// that only this package uses. Components and users are clients of it.
//
// New makes a Server; it fails where a start can fail (a port in use, an invalid token file). Run serves until its context
// ends. The parts are in internal; the stages of a request are three lists: filters (internal/httpapi/filters.go), the
// stages of the verb engine (stages.go) and the connectors of subresources (internal/connect).
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/aggregate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bindings"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bootstrap"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/clocks"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/components"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/corrupt"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/definitions"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/httpapi"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/listen"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/rows"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/schedulerconfigs"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/virtual"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

// Config is the input of New.
type Config struct {
	Store     store.Store // the caller closes it after Run
	Resources []objects.Resource
	Clock     clock.Clock
	Source    *clock.Source
	PKI       *pki.PKI

	Listen    string   // HOST:PORT for HTTPS; port 0 picks one; "" listens on no port
	Hosts     []string // more names and addresses for the serving certificate
	Socket    string   // path of a Unix socket for the local command line; "" for none. Its directory is made private
	TokenFile string   // of static tokens: a line of token,user,uid,"group1,group2" for each; "" for none

	Audit AuditConfig // zero: there is no audit log

	ServiceAddresses netip.Prefix // from which Services get their cluster addresses, IPv4; zero: 10.96.0.0/16

	// DirClass adds the default StorageClass "standard", whose provisioner makes directories.
	DirClass bool
	// IngressClass adds the default IngressClass "minikctl", whose controller is this program's.
	IngressClass bool
	// Stages adds the CustomResourceDefinition of kwok's Stages, which simulated nodes act on.
	Stages bool

	// Features are the feature gates for which Resources has the rows.
	Features feature.Gates

	// PodWarnings returns warnings about the fields of a pod that the nodes do not support; nil: none.
	PodWarnings func(context.Context, *corev1.PodSpec) []string
	// ServiceWarnings returns warnings about what the cluster does not serve of a Service; nil: none.
	ServiceWarnings func(*corev1.ServiceSpec) []string
	// WithoutController are the resources that no component acts on. A create of one gets a Warning header.
	WithoutController []schema.GroupResource

	// VerifiedNode reports whether the API server verifies the serving certificate of a node's kubelet against the
	// cluster's authority. nil means that it verifies none.
	VerifiedNode func(node string) bool

	// Components are the health checks of "scheduler" and "controller-manager", where they run in this process.
	Components map[string]Component

	// MemoryLimit is the memory in bytes that the process may take. Requests are refused before it is reached; 0: never.
	MemoryLimit uint64

	TraceDir   string               // where traces are kept over a restart; "" keeps them in memory only
	TraceBytes int                  // how much of them is kept in memory; 0: 16 MiB
	Metrics    *prometheus.Registry // what /metrics shows; nil: the server's own metrics only
	Flags      map[string]string    // what /flagz shows
}

// AuditConfig configures the audit log.
type AuditConfig = audit.Config

// Component returns an error when a component of the cluster is unhealthy.
type Component = components.Check

// defaultServiceAddresses is the range that Kubernetes' installers use.
var defaultServiceAddresses = netip.MustParsePrefix("10.96.0.0/16")

// Server is the API server.
type Server struct {
	store     store.Store
	clock     clock.Clock
	random    *clock.Source // for values that are not part of the cluster's state; Config.Source is for those that are
	rows      *rows.Rows
	bootstrap *bootstrap.Bootstrap
	registrar *definitions.Registrar // nil: CustomResourceDefinitions are not served
	engine    *verbs.Engine
	virtual   *virtual.Store
	audit     *audit.Log // nil: there is no audit log
	api       verbs.API  // the engine, with its requests in the audit log
	stages    stage.Stages
	authn     authenticator.Request
	issuer    *tokens.Issuer // of ServiceAccount tokens

	kubelets   *connect.Kubelets
	extensions *aggregate.Extensions
	handler    *httpapi.Handler
	listeners  listen.Listeners

	ready    chan struct{}
	stopping context.Context // ends watches and connections
	stop     context.CancelFunc
}

// New makes the server and opens its listeners.
func New(cfg Config) (_ *Server, err error) {
	s := &Server{store: cfg.Store, clock: cfg.Clock, random: clock.RandomSource(), ready: make(chan struct{})}
	s.stopping, s.stop = context.WithCancel(context.Background()) //nolint:forbidigo // Run ends it
	defer func() {
		if err == nil {
			return
		}
		if s.virtual != nil {
			s.virtual.Close()
		}
		_ = s.audit.Close() // it is empty
	}()
	if !cfg.ServiceAddresses.IsValid() {
		cfg.ServiceAddresses = defaultServiceAddresses
	}
	if err := s.build(cfg); err != nil {
		return nil, err
	}
	hosts := append(slices.Clone(cfg.Hosts), bootstrap.ServiceAddress(cfg.ServiceAddresses))
	s.listeners, err = listen.Open(listen.Config{Address: cfg.Listen, Hosts: hosts, Socket: cfg.Socket, PKI: cfg.PKI})
	return s, err
}

// build makes the parts of the server.
func (s *Server) build(cfg Config) error {
	s.rows = rows.New(slices.Concat(cfg.Resources, virtual.Rows(), metrics.Rows(), []objects.Resource{bindings.Row(), corrupt.Row(), schedulerconfigs.Row()}, clocks.Rows()))
	var err error
	s.virtual, err = virtual.New(virtual.Config{Dir: cfg.TraceDir, Bytes: cfg.TraceBytes, Clock: cfg.Clock, Source: cfg.Source})
	if err != nil {
		return err
	}
	s.bootstrap, err = bootstrap.New(context.Background(), bootstrap.Config{ //nolint:forbidigo // a start that nothing cancels
		Store: cfg.Store, Resources: cfg.Resources, Clock: cfg.Clock, Source: cfg.Source, PKI: cfg.PKI, ServiceAddresses: cfg.ServiceAddresses,
		DirClass: cfg.DirClass, IngressClass: cfg.IngressClass, Stages: cfg.Stages, Features: cfg.Features,
		Port: func() int32 { return s.listeners.Port() }, Host: func() string { return s.listeners.Host() }, Versions: s.rows.Versions,
	})
	if err != nil {
		return err
	}
	if err := s.newEngine(cfg); err != nil {
		return err
	}
	if err := s.newAuthn(cfg); err != nil {
		return err
	}
	if s.audit, err = audit.Open(cfg.Audit, cfg.Clock, s.random.UID); err != nil {
		return err
	}
	s.api = s.engine.InTurns(s.audit.API(s.bootstrap.API(s.engine, s.extensionsChanged)))
	s.extensions = aggregate.New(aggregate.Config{
		Reader: s.engine.Reader(), Clock: s.clock, Identity: cfg.PKI.FrontProxy, Self: s.Addr,
		Client: func() client.Client { return s.ownClient(bootstrap.Agent) }, Stored: s.bootstrap.Stored,
	})
	if s.rows.Lookup(definitions.Resource) != nil {
		s.registrar = s.newRegistrar()
	}
	if s.kubelets, err = newKubelets(cfg, s.engine.Reader()); err != nil {
		return err
	}
	s.handler = httpapi.New(httpapi.Config{
		API: s.api, Authorize: s.engine.Authorize, Rows: s.rows, Stages: s.stages, Authn: s.authn, Audit: s.audit, Issuer: s.issuer,
		Extensions: s.extensions, Kubelets: s.kubelets, Metrics: cfg.Metrics, Flags: cfg.Flags, Reader: s.engine.Reader(), Count: s.engine.Count,
		Clock: s.clock, Random: s.random, Address: s.Addr, Ready: s.ready, Stopping: s.stopping, MemoryLimit: cfg.MemoryLimit,
		Healthy: func(ctx context.Context) error { return healthy(ctx, cfg.Store) },
		Backup: func(ctx context.Context, w io.Writer) error {
			_, err := backup.Write(ctx, cfg.Store, w)
			return err
		},
	})
	return nil
}

// healthy reports whether the store responds.
func healthy(ctx context.Context, s store.Store) error {
	_, err := s.Head(ctx)
	return err
}

// writable returns an error if the store takes no writes.
func writable(ctx context.Context, s store.Store) error {
	_, err := s.Write(ctx)
	return err
}

// newKubelets returns the connections to the kubelets' servers.
func newKubelets(cfg Config, reader stage.Reader) (*connect.Kubelets, error) {
	pair, err := cfg.PKI.KubeletClient()
	if err != nil {
		return nil, err
	}
	identity, err := pair.TLS()
	if err != nil {
		return nil, err
	}
	return connect.NewKubelets(connect.Config{
		Reader: reader, Identity: identity, Authorities: cfg.PKI.Pool(), Clock: cfg.Clock, Verified: cfg.VerifiedNode,
	}), nil
}

// extensionsChanged is called after a client has written an APIService.
func (s *Server) extensionsChanged(ctx context.Context) {
	if err := s.extensions.Changed(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "read the APIServices", "err", err)
	}
}

// Handler serves the API over HTTP. It responds once the server is ready.
func (s *Server) Handler() http.Handler { return s.handler }

// Documents returns a transport that serves discovery and OpenAPI documents in this process, for requests of the user u.
// Other paths get 404.
func (s *Server) Documents(u user.Info) http.RoundTripper { return s.handler.Documents(u) }

// Client returns an in-process client that acts as u, with agent as its user agent.
func (s *Server) Client(u user.Info, agent string) client.Client {
	return direct.New(s.api, s.rows.Lookup, u, agent)
}

// ownClient returns a client of the server itself.
func (s *Server) ownClient(agent string) client.Client { return s.Client(self, agent) }

// self is the user of the server's own requests.
var self = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}

// SecretToken returns the token of a ServiceAccount that a Secret holds.
func (s *Server) SecretToken(secret *corev1.Secret, account *corev1.ServiceAccount) (string, error) {
	return s.issuer.ForSecret(secret, account)
}

// Ready is closed once the server serves requests.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns HOST:PORT at which this machine reaches the HTTPS listener, "" when there is none.
func (s *Server) Addr() string { return s.listeners.Address() }

// Release frees memory that only a busy server needs. Watches that begin at earlier revisions read from the store afterwards.
func (s *Server) Release() {
	s.engine.Release()
	s.virtual.Release()
	if r, ok := s.store.(interface{ Release() }); ok {
		r.Release()
	}
}

// drain bounds how long requests may take to end when the server stops. linger bounds how long their connections may take
// after that.
const (
	drain  = 5 * time.Second
	linger = 50 * time.Millisecond
)

// Run serves until ctx ends, then waits for running requests.
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
	counted := func(name string, run func(context.Context) error) { // on a manual clock, from now on
		in := clock.Starting(s.clock, name)
		part(name, func(ctx context.Context) error { return run(in(ctx)) })
	}
	counted("verb engine", s.engine.Run)
	part("traces", s.virtual.Run)
	servers := s.listeners.Serve(base, s.handler, cancel)
	if err := s.prepare(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
	} else if err == nil {
		part("extensions", s.extensions.Run)
		counted("defaults", func(ctx context.Context) error {
			return s.bootstrap.Run(ctx, bootstrap.Access{Reader: s.engine.Reader(), Client: s.ownClient})
		})
		if s.registrar != nil {
			counted("custom resources", s.registrar.Run)
		}
		close(s.ready)
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

// prepare serves the stored custom resources.
func (s *Server) prepare(ctx context.Context) error {
	if s.registrar == nil {
		return nil
	}
	return s.registrar.Load(ctx)
}

// shutdown closes the listeners at once, and the connections when no request is running or drain is over.
func (s *Server) shutdown(ctx context.Context, servers []*http.Server) {
	s.listeners.Close()
	timer := clock.Machine(s.clock).NewTimer(drain)
	defer timer.Stop()
	select {
	case <-s.handler.Idle():
	case <-timer.C():
		slog.WarnContext(ctx, "requests are cut off at shutdown")
	}
	// Complete responses may still be in the connections' buffers. Without an end to its context, Shutdown takes a second
	// on each HTTP/2 connection.
	ctx, cancel := context.WithCancel(ctx)
	defer clock.Machine(s.clock).AfterFunc(linger, cancel).Stop()
	for _, srv := range servers {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // linger is over
		}
	}
	cancel()
}
