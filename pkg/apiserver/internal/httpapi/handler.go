// Package httpapi owns the API over HTTP: the filters of each request, the routing to resources and other paths,
// content negotiation, and the responses. It decodes a request, calls the verb engine, and encodes the result.
// filters.go lists the filters, routes.go the paths that are not resources.
package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/aggregate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bodies"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/rows"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/zpages"
)

// Config holds the parts of the API server that the handler uses.
type Config struct {
	API        verbs.API
	Authorize  func(context.Context, *verbs.Request) error // the verb engine's check
	Rows       *rows.Rows
	Stages     stage.Stages
	Authn      authenticator.Request
	Audit      *audit.Log                     // nil: there is no audit log
	Reader     stage.Reader                   // of FlowSchemas and PriorityLevelConfigurations
	Count      func(schema.GroupResource) int // returns the number of a resource's objects, as far as it is known
	Issuer     *tokens.Issuer
	Extensions *aggregate.Extensions
	Kubelets   *connect.Kubelets
	Metrics    *prometheus.Registry // the server's own are added to it for /metrics; nil: those only
	Flags      map[string]string    // of the process, for /flagz

	Backup func(context.Context, io.Writer) error // writes a backup of the store; nil: there are none

	Clock    clock.Clock
	Random   *clock.Source               // for values that are not part of the cluster's state
	Address  func() string               // returns HOST:PORT of the HTTPS listener; "" without one
	Healthy  func(context.Context) error // returns an error if the store does not respond
	Ready    <-chan struct{}             // closed once the server is ready
	Stopping context.Context             // ends watches and connections

	MemoryLimit uint64 // bytes that the process may take; 0: no limit
}

// Handler serves the API over HTTP.
type Handler struct {
	config   Config
	machine  clock.Clock
	metrics  metrics
	zpages   *zpages.Component
	healths  *health.Server
	running  inflight
	inflight *inflightLimit
	fair     *fair.Limit // of requests that the FlowSchemas hold for
	exempt   *fair.Limit // of all others
	held     *writtenObjects
	replays  *replays
	bodies   *bodies.Limit // admitted
	received *bodies.Limit
	flows    flows
	memory   *pressure
	handler  http.Handler
}

// New returns the handler.
func New(cfg Config) *Handler {
	s := &Handler{config: cfg, healths: health.NewServer(), machine: clock.Machine(cfg.Clock), metrics: newMetrics(cfg.Metrics), held: newHeldObjects(heldBytes), replays: newReplays(mostReplays, replaysOfUser), flows: flows{reader: cfg.Reader}}
	s.memory = &pressure{limit: cfg.MemoryLimit, clock: s.machine, read: readMemory}
	s.inflight = newInflightLimit(mostRequests, mostOfUser)
	s.fair, s.exempt = s.newLimit(), s.newExempt()
	s.bodies, s.received = s.newBodies(), s.newReceived()
	s.zpages = zpages.New("apiserver", s.machine, cfg.Flags, s.paths())
	s.handler = chain(s.routes(), s.filters())
	return s
}

// ServeHTTP implements http.Handler.
func (s *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Idle returns a channel that is closed when no request is in flight.
func (s *Handler) Idle() <-chan struct{} { return s.running.none() }

// Forget drops the metrics of a resource that is no longer served.
func (s *Handler) Forget(resource string) { s.metrics.forget(resource) }

// check calls the authorizers.
func (s *Handler) check(ctx context.Context, a *stage.Attributes) error {
	return authz.Check(ctx, s.config.Stages.Authorizers, a)
}

func (s *Handler) authorize(r *http.Request, a *stage.Attributes) error {
	if s.config.Audit != nil {
		a.Audit = callOf(r).audit
	}
	return s.check(r.Context(), a)
}
