package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
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

// filters lists what every request passes, the outermost first.
func (s *Server) filters() []filter {
	return []filter{
		s.begin,        // the call, its address and its Audit-Id
		s.observe,      // metrics
		s.recover,      // a panic is an answer too
		s.deadline,     // for what is not long-running
		s.authenticate, // who
		s.record,       // what the audit log tells
		s.impersonate,  // as whom
		s.limit,        // not too many at once
		s.report,       // what components tell about their writes
	}
}

func chain(h http.Handler, filters []filter) http.Handler {
	for i := len(filters) - 1; i >= 0; i-- {
		h = filters[i](h)
	}
	return h
}

func (s *Server) begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.begin()
		defer s.running.end()
		c := &call{began: s.clock.Now(), header: w.Header(), address: parseAddress(r.Method, r.URL)}
		id := r.Header.Get("Audit-Id")
		if id == "" {
			id = string(s.chance.UID())
		}
		w.Header().Set("Audit-Id", id)
		w.Header().Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, r.WithContext(withCall(r.Context(), c)))
	})
}

// recover answers 500 for a handler that panics, unless it has begun to answer.
func (s *Server) recover(next http.Handler) http.Handler {
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
				panic(http.ErrAbortHandler) // the client is not to take what it has for a whole answer
			}
			fail(w, r, apierrors.NewInternalError(errors.New("This request caused apiserver to panic. Look in the logs for details."))) //nolint:staticcheck // Kubernetes' words
		}()
		next.ServeHTTP(w, r)
	})
}

// requestTimeout is how long a request may take that is not long-running.
const requestTimeout = 60 * time.Second

// deadline ends a request's context when it takes too long, or longer than its timeout parameter says.
func (s *Server) deadline(next http.Handler) http.Handler {
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

// cut cancels a request after limit and stops the reading of its body, and somewhat later the writing of its answer, unless
// the function that it returns is called before.
func (s *Server) cut(w http.ResponseWriter, limit time.Duration, cancel context.CancelCauseFunc) func() {
	a := &answering{w: w}
	timer := s.clock.AfterFunc(limit, func() {
		cancel(context.DeadlineExceeded)
		a.stop((*http.ResponseController).SetReadDeadline)
	})
	last := s.hangUp(a, limit+lastWords)
	return func() {
		timer.Stop()
		last.Stop()
		a.end()
	}
}

// lastWords is how long an answer may take yet whose time is over.
const lastWords = 5 * time.Second

// hangUp stops the writing of an answer after some time: a client that reads nothing would keep it for ever.
func (s *Server) hangUp(a *answering, after time.Duration) utilclock.Timer {
	return s.clock.AfterFunc(after, func() { a.stop((*http.ResponseController).SetWriteDeadline) })
}

// answering is an answer, as long as it is being made: after that its connection is another's.
type answering struct {
	w http.ResponseWriter

	mu    sync.Mutex
	ended bool
}

func (a *answering) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

// stop ends what waits for the client, by one of its deadlines. Where the connection has none, nothing waits.
func (a *answering) stop(deadline func(*http.ResponseController, time.Time) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		_ = deadline(http.NewResponseController(a.w), longAgo)
	}
}

// longAgo as a deadline ends what is waiting at once.
var longAgo = time.Unix(1, 0)

// authenticate finds out who makes a request.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		who, ok, err := s.authn.Authenticate(r)
		if err != nil || !ok {
			slog.DebugContext(r.Context(), "unable to authenticate the request", "err", err)
			closeUnknown(w, r)
			fail(s.refused(w, r), r, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		authn.Clear(r.Header)
		if unknown(who) {
			closeUnknown(w, r)
		}
		c.user = who
		c.stage("authn", c.began, s.clock.Now())
		next.ServeHTTP(w, r)
	})
}

func unknown(who user.Info) bool {
	return who.GetName() == user.Anonymous || slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

// closeUnknown has the connection end with its answer to somebody unknown. HTTP/2 makes requests, and taking them back, so
// cheap for clients that it is for those who say who they are.
func closeUnknown(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// componentPrefixes begin the names of those who may tell what woke them.
var componentPrefixes = []string{"system:serviceaccount:kube-system:", "system:node:"}

func component(who user.Info) bool {
	switch name := who.GetName(); name {
	case user.KubeScheduler, user.KubeControllerManager:
		return true
	default:
		for _, p := range componentPrefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	}
}

// report takes the trace header from components; from others it means nothing.
func (s *Server) report(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if v := r.Header.Get(trace.Header); v != "" && component(c.user) {
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
