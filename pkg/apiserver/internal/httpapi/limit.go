package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

const (
	// seatsPerProcessor is how many requests are executed concurrently for each processor: enough to share the commits of the store.
	seatsPerProcessor = 32
	minSeats          = 64
	queueTimeout      = requestTimeout / 4 // as in Kubernetes

	// A list of wideList objects or more counts as listSeats requests, a smaller one as a part of them. Writing it keeps a processor busy:
	// the lists of one flow leave others free, or the requests of other flows would not even be read from their connections. Kubernetes
	// counts 10 requests of 600 for a list of 1,000 objects, whatever the processors.
	wideList, listSeats = 1000, 24
)

func (s *Handler) newLimit() *fair.Limit {
	return fair.New(fair.Config{Seats: seats(), PerFlow: seats() / 2, QueueTimeout: queueTimeout, Clock: s.machine})
}

// seats returns how many requests of all flows are executed concurrently.
func seats() int {
	return min(max(seatsPerProcessor*runtime.GOMAXPROCS(0), minSeats), fair.Concurrency)
}

// newExempt returns the limit of administrators and of exempt priority levels. It refuses nothing, but executes only as many requests of one
// user at a time as of any other flow. More would only take processor time from the others: Kubernetes, which executes all of them, leaves
// that to the machine.
func (s *Handler) newExempt() *fair.Limit {
	l := fair.New(fair.Config{Seats: fair.Concurrency, PerFlow: seats() / 2, QueueTimeout: 2 * requestTimeout, Clock: s.machine})
	l.SetLevels([]fair.Level{{Shares: 1, Borrow: -1, PerFlow: math.MaxInt, Waiting: math.MaxInt}})
	return l
}

// priorityAndFairness bounds the number of concurrent requests by the FlowSchemas and PriorityLevelConfigurations. A watch holds its seat until its
// first frame. Other long-running requests and health probes need no seat.
func (s *Handler) priorityAndFairness(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if c.address.longRunning(r.URL) && c.address.verb != "watch" {
			next.ServeHTTP(w, r)
			return
		}
		q := flowRequest(c, r)
		class := s.flows.classify(r.Context(), s.fair, &q)
		if class != nil && class.SchemaUID != "" {
			w.Header().Set(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID, class.LevelUID)
			w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, class.SchemaUID)
		}
		if healthProbe(&q) {
			next.ServeHTTP(w, r)
			return
		}
		limit, level, flow := s.fair, "", fair.Flow{Distinguisher: c.user.GetName()}
		switch {
		case class != nil && class.Exempt || administrator(c.user):
			limit = s.exempt
		case class != nil:
			level, flow = class.Level, class.Flow(&q)
		}
		if err := limit.Enter(r.Context(), &c.seat, level, flow, s.width(c, r)); err != nil {
			tooMany(w, r, err)
			return
		}
		defer c.seat.Leave()
		next.ServeHTTP(w, r)
	})
}

// flowRequest returns what FlowSchemas match of a request.
func flowRequest(c *call, r *http.Request) fair.Request {
	a := &c.address
	return fair.Request{
		User: c.user, Verb: a.verb, IsResource: a.resourceful,
		Group: a.group, Resource: a.resource, Subresource: a.subresource, Scope: a.namespace, Path: r.URL.Path,
	}
}

// healthPaths are the paths that need no seat.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

func healthProbe(q *fair.Request) bool {
	return !q.IsResource && slices.Contains(healthPaths, strings.TrimSuffix(q.Path, "/"))
}

// administrator reports whether the FlowSchemas do not hold for a user.
func administrator(u user.Info) bool {
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// width returns for how many requests a request counts.
func (s *Handler) width(c *call, r *http.Request) int {
	if c.address.verb != "list" || c.address.name != "" || s.config.Count == nil {
		return 1
	}
	n := s.config.Count(c.address.gvr().GroupResource())
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && limit > 0 {
		n = min(n, limit)
	}
	return max(1, min(n, wideList)*listSeats/wideList)
}

func tooMany(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, fair.ErrBusy) {
		fail(w, r, err)
		return
	}
	w.Header().Set("Retry-After", "1") // seconds
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

var (
	flowSchemas    = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}
	priorityLevels = schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"}
)

// flows follows the FlowSchemas and PriorityLevelConfigurations.
type flows struct {
	reader  stage.Reader // nil: there are none
	current atomic.Pointer[currentRules]
	mu      sync.Mutex // held while the rules are replaced
}

// currentRules are the rules of one state of the objects.
type currentRules struct {
	schemas, levels uint64 // the changes of the objects
	rules           *fair.Rules
}

// classify returns the class of a request; nil if there are no rules. It sets the limit's levels when they have changed.
func (f *flows) classify(ctx context.Context, l *fair.Limit, q *fair.Request) *fair.Class {
	if f.reader == nil {
		return nil
	}
	schemas, err := f.reader.Counters(ctx, flowSchemas)
	if err != nil {
		return nil // the request itself shows the error
	}
	levels, err := f.reader.Counters(ctx, priorityLevels)
	if err != nil {
		return nil
	}
	now := f.current.Load()
	if now == nil || now.schemas != schemas.Changes || now.levels != levels.Changes {
		now = f.replace(ctx, l, schemas.Changes, levels.Changes)
	}
	if now == nil {
		return nil
	}
	return now.rules.Classify(q)
}

// replace makes the rules of the current objects, unless another request has done so.
func (f *flows) replace(ctx context.Context, l *fair.Limit, schemas, levels uint64) *currentRules {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.current.Load()
	if now != nil && now.schemas >= schemas && now.levels >= levels {
		return now
	}
	rules, err := f.read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "read the FlowSchemas", "err", err)
		}
		return now
	}
	now = &currentRules{schemas, levels, rules}
	f.current.Store(now)
	l.SetLevels(rules.Levels)
	return now
}

func (f *flows) read(ctx context.Context) (*fair.Rules, error) {
	schemas, err := listOf[*flowcontrolv1.FlowSchema](ctx, f.reader, flowSchemas)
	if err != nil {
		return nil, err
	}
	levels, err := listOf[*flowcontrolv1.PriorityLevelConfiguration](ctx, f.reader, priorityLevels)
	if err != nil {
		return nil, err
	}
	return fair.NewRules(schemas, levels), nil
}

func listOf[T any](ctx context.Context, r stage.Reader, gr schema.GroupResource) ([]T, error) {
	list, err := r.List(ctx, gr, "")
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(list))
	for _, obj := range list {
		if t, ok := any(obj).(T); ok {
			out = append(out, t)
		}
	}
	return out, nil
}
