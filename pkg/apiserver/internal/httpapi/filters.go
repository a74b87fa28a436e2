package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	utilclock "k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/trace"
)

// filter wraps a handler.
type filter func(http.Handler) http.Handler

// filters lists the filters of every request, the outermost first.
func (s *Handler) filters() []filter {
	return []filter{
		s.begin,               // the call, its address and its Audit-Id
		s.observe,             // metrics
		s.recover,             // responds with 500 after a panic
		s.deadline,            // for requests that are not long-running
		s.authenticate,        // sets the user
		s.limitInFlight,       // bounds the number of requests in flight
		s.record,              // the audit log
		s.impersonate,         // replaces the user
		s.shed,                // rejects requests while the memory limit is nearly reached
		s.priorityAndFairness, // bounds the number of concurrent requests
		s.limitBodies,         // bounds the size of concurrent requests
		s.report,              // the trace header of components
	}
}

func chain(h http.Handler, filters []filter) http.Handler {
	for i := len(filters) - 1; i >= 0; i-- {
		h = filters[i](h)
	}
	return h
}

func (s *Handler) begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.begin()
		defer s.running.end()
		c := &call{clock: s.machine, began: s.machine.Now(), header: w.Header(), address: parseAddress(r.Method, r.URL)}
		id := r.Header.Get("Audit-Id")
		if id == "" {
			id = string(s.config.Random.UID())
		}
		w.Header().Set("Audit-Id", id)
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, r.WithContext(withCall(r.Context(), c)))
	})
}

// recover responds with 500 when a handler panics before it has begun to write the response.
func (s *Handler) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			slog.ErrorContext(r.Context(), "request panicked", "method", r.Method, "path", r.URL.Path, "err", p, "stack", string(debug.Stack()))
			if rec, ok := w.(*recorder); ok && rec.code != 0 {
				panic(http.ErrAbortHandler) // otherwise the client takes the part for the whole response
			}
			fail(w, r, apierrors.NewInternalError(errors.New("This request caused apiserver to panic. Look in the logs for details."))) //nolint:staticcheck // Kubernetes' words
		}()
		next.ServeHTTP(w, r)
	})
}

// requestTimeout bounds requests that are not long-running.
const requestTimeout = 60 * time.Second

// deadline cancels a request's context after requestTimeout or the request's timeout parameter, whichever is shorter.
func (s *Handler) deadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callOf(r).address.longRunning(r.URL) {
			next.ServeHTTP(w, r)
			return
		}
		limit := requestTimeout
		if v := r.URL.Query().Get("timeout"); v != "" {
			d, err := time.ParseDuration(v)
			if err != nil {
				fail(s.refused(w, r), r, apierrors.NewBadRequest("invalid timeout specified in the request URL - "+err.Error()))
				return
			}
			if d > 0 {
				limit = min(limit, d)
			}
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer s.cut(w, limit, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// cut cancels a request and the reading of its body after limit, and the writing of its response writeGrace later. The
// returned function stops both timers.
func (s *Handler) cut(w http.ResponseWriter, limit time.Duration, cancel context.CancelCauseFunc) func() {
	a := &openResponse{w: w}
	timer := s.machine.AfterFunc(limit, func() {
		cancel(context.DeadlineExceeded)
		a.stop((*http.ResponseController).SetReadDeadline)
	})
	last := s.cutWrites(a, limit+writeGrace)
	return func() {
		timer.Stop()
		last.Stop()
		a.end()
	}
}

// writeGrace is how long writing the response may still take after the request is cancelled.
const writeGrace = 5 * time.Second

// cutWrites stops the writing of a response after some time. Otherwise a client that reads nothing blocks it forever.
func (s *Handler) cutWrites(a *openResponse, after time.Duration) utilclock.Timer {
	return s.machine.AfterFunc(after, func() { a.stop((*http.ResponseController).SetWriteDeadline) })
}

// openResponse is a response until its handler returns. After that, the connection serves other requests.
type openResponse struct {
	w http.ResponseWriter

	mu    sync.Mutex
	ended bool
}

func (a *openResponse) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

// stop ends pending reads and writes of the connection by setting a deadline in the past. It ignores the error of a
// response writer without deadlines, which does not block.
func (a *openResponse) stop(deadline func(*http.ResponseController, time.Time) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		_ = deadline(http.NewResponseController(a.w), pastDeadline)
	}
}

// pastDeadline is a deadline in the past: it ends waiting reads and writes at once.
var pastDeadline = time.Unix(1, 0)

// authenticate sets the request's user, or responds with 401.
func (s *Handler) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		auth, ok, err := s.config.Authn.AuthenticateRequest(r)
		if err != nil || !ok {
			slog.DebugContext(r.Context(), "unable to authenticate the request", "err", err)
			closeUnauthenticated(w, r)
			fail(s.refused(w, r), r, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		authn.Clear(r.Header)
		if isUnauthenticated(auth.User) {
			closeUnauthenticated(w, r)
		}
		c.user = auth.User
		c.stage("authn", c.began, s.machine.Now())
		next.ServeHTTP(w, r)
	})
}

func isUnauthenticated(info user.Info) bool {
	return info.GetName() == user.Anonymous || slices.Contains(info.GetGroups(), user.AllUnauthenticated)
}

// closeUnauthenticated closes the HTTP/2 connection of an unauthenticated client after the response. In HTTP/2 a client can
// send and reset requests at no cost, so only authenticated clients keep a connection.
func closeUnauthenticated(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// report reads the trace header of components. It ignores that of other users.
func (s *Handler) report(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if v := r.Header.Get(trace.Header); v != "" && authn.Component(c.user) {
			report, err := trace.Decode(v)
			if err != nil {
				fail(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			c.report = report
		}
		next.ServeHTTP(w, r)
	})
}
