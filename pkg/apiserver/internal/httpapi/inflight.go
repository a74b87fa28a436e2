package httpapi

import (
	"net/http"
	"sync"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
)

// The bounds of requests that are handled, wait, or are watches. Each takes some tens of KB.
const (
	mostRequests = 12_000
	mostOfUser   = 6_000
)

// inflightLimit counts requests by user, and refuses those beyond its bounds. It is safe for concurrent use.
type inflightLimit struct {
	all, perUser int

	mu    sync.Mutex
	count int
	users map[string]int
}

func newInflightLimit(all, perUser int) *inflightLimit {
	return &inflightLimit{all: all, perUser: perUser, users: map[string]int{}}
}

// enter counts a request of user if that is within the bounds, and reports whether it did. If so, the caller must call leave.
func (l *inflightLimit) enter(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.all || l.users[user] >= l.perUser {
		return false
	}
	l.count++
	l.users[user]++
	return true
}

func (l *inflightLimit) leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
}

// limitInFlight refuses requests with 429 while there are too many, administrators' too. Those of components and health checks are served.
func (s *Handler) limitInFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if authn.Component(c.user) || operational(c, r) {
			next.ServeHTTP(w, r)
			return
		}
		user := c.user.GetName() // before impersonation, which would make one user many
		if !s.inflight.enter(user) {
			// Without a body the response ends at once, also for a client that reads nothing.
			w.Header().Set("Retry-After", "1") // seconds
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer s.inflight.leave(user)
		next.ServeHTTP(w, r)
	})
}

// inflight counts the requests in flight, so that the server can wait for them when it stops.
type inflight struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // made by none; closed when count is 0
}

func (f *inflight) begin() {
	f.mu.Lock()
	f.count++
	f.mu.Unlock()
}

func (f *inflight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if f.count == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// none returns a channel that is closed when no request is in flight.
func (f *inflight) none() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := make(chan struct{})
	if f.count == 0 {
		close(idle)
	} else {
		f.idle = idle
	}
	return idle
}
