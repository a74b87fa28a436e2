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

// crowd counts requests by user, and refuses those beyond its bounds. It is safe for concurrent use.
type crowd struct {
	all, perUser int

	mu    sync.Mutex
	count int
	users map[string]int
}

func newCrowd(all, perUser int) *crowd {
	return &crowd{all: all, perUser: perUser, users: map[string]int{}}
}

// enter counts a request of user if that is within the bounds, and reports whether it did. If so, the caller must call leave.
func (c *crowd) enter(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= c.all || c.users[user] >= c.perUser {
		return false
	}
	c.count++
	c.users[user]++
	return true
}

func (c *crowd) leave(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	if c.users[user]--; c.users[user] == 0 {
		delete(c.users, user)
	}
}

// bound refuses requests with 429 while there are too many, administrators' too. Those of components and health checks are served.
func (s *Handler) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if authn.Component(c.user) || operational(c, r) {
			next.ServeHTTP(w, r)
			return
		}
		user := c.user.GetName() // before impersonation, which would make one user many
		if !s.crowd.enter(user) {
			// Without a body the response ends at once, also for a client that reads nothing.
			w.Header().Set("Retry-After", "1") // seconds
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer s.crowd.leave(user)
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
