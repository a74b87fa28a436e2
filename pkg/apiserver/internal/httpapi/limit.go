package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
)

// seats is the sum of Kubernetes' default limits (400 reads and 200 writes), queueLength the length of one of its
// queues. A request is queued for at most a quarter of requestTimeout.
const (
	seats        = 600
	queueLength  = 50
	waitingUsers = 1024
	queueTimeout = requestTimeout / 4
)

func (s *Handler) newLimit() *fair.Limit {
	return fair.New(fair.Config{Seats: seats, Queue: queueLength, Flows: waitingUsers, Patience: queueTimeout, Clock: s.config.Clock})
}

// limit bounds the number of concurrent requests, fairly among users. A watch holds its seat until its first frame.
// Other long-running requests, administrators and health probes need no seat.
func (s *Handler) limit(next http.Handler) http.Handler {
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

// health are the paths that need no seat.
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
	w.Header().Set("Retry-After", "1") // seconds
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
