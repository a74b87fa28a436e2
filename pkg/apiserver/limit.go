package apiserver

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
)

// How many requests are let in: as many at once as Kubernetes' defaults of 400 that read and 200 that write, and of each
// user as many that wait as in one of its queues, for a quarter of a request's time.
const (
	seats        = 600
	queueLength  = 50
	waitingUsers = 1024
	seatPatience = requestTimeout / 4
)

func (s *Server) newLimit() *fair.Limit {
	return fair.New(fair.Config{Seats: seats, Queue: queueLength, Flows: waitingUsers, Patience: seatPatience, Clock: s.clock})
}

// limit lets a bounded number of requests in, fairly among users. A watch counts until it has begun; what else may last
// does not count. Administrators and probes of health always come in.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		if exempt(c, r) {
			next.ServeHTTP(w, r)
			return
		}
		flow := c.user.GetName()
		if err := s.fair.Enter(r.Context(), flow); err != nil {
			tooMany(w, r, err)
			return
		}
		var once sync.Once
		c.leave = func() { once.Do(func() { s.fair.Leave(flow) }) }
		defer c.leave()
		next.ServeHTTP(w, r)
	})
}

// health are the paths whose probes are always let in.
var health = []string{"/healthz", "/livez", "/readyz"}

func exempt(c *call, r *http.Request) bool {
	if c.address.longRunning(r.URL) && c.address.verb != "watch" || slices.Contains(c.user.GetGroups(), user.SystemPrivilegedGroup) {
		return true
	}
	return !c.address.resourceful && slices.ContainsFunc(health, func(p string) bool {
		return strings.TrimSuffix(r.URL.Path, "/") == p
	})
}

func tooMany(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, fair.ErrBusy) {
		fail(w, r, err)
		return
	}
	w.Header().Set("Retry-After", "1") // second
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
