package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/fair"
	"github.com/minikctl/minikctl/pkg/clock"
)

func TestLimit(t *testing.T) {
	s := &Handler{fair: fair.New(fair.Config{Seats: 1, PerFlow: 1, Clock: clock.Real()}), machine: clock.Real()}
	s.exempt = s.newExempt()
	s.fair.SetLevels([]fair.Level{{Shares: 1, Borrow: -1}}) // without a queue
	inside := make(chan struct{})
	release := make(chan struct{})
	h := s.priorityAndFairness(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Stay") == "" {
			return
		}
		if callOf(r).address.verb == "watch" {
			callOf(r).seat.Leave() // as a watch does at its first frame
		}
		close(inside)
		<-release
	}))
	ask := func(name, method, path, stay string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Stay", stay)
		u := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
		if name == "admin" {
			u.Groups = append(u.Groups, user.SystemPrivilegedGroup)
		}
		c := &call{user: u, address: parseAddress(method, r.URL)}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(withCall(context.Background(), c)))
		return w
	}
	stay := func(name, path string) (leave func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			ask(name, "GET", path, "yes")
		}()
		<-inside
		return func() {
			close(release)
			<-done
			inside, release = make(chan struct{}), make(chan struct{})
		}
	}
	const pods = "/api/v1/pods"
	leave := stay("alice", pods)
	for _, c := range []struct {
		name, path string
		want       int
	}{
		{"bob", pods, http.StatusTooManyRequests},
		{"alice", pods, http.StatusTooManyRequests},
		{"bob", pods + "?watch=1", http.StatusTooManyRequests},
		{"admin", pods, http.StatusOK},
		{"bob", "/readyz", http.StatusOK},
		{"bob", "/api/v1/namespaces/n/pods/p/log?follow=true", http.StatusOK},
		{"bob", "/api/v1/namespaces/n/pods/p/exec", http.StatusOK},
	} {
		w := ask(c.name, "GET", c.path, "")
		if w.Code != c.want {
			t.Errorf("%s %s: got %d, want %d", c.name, c.path, w.Code, c.want)
		}
		if w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n") {
			t.Errorf("got %v %q", w.Header(), w.Body)
		}
	}
	leave()
	if w := ask("bob", "GET", pods, ""); w.Code != http.StatusOK {
		t.Errorf("a seat that was left is not free: %d", w.Code)
	}
	leave = stay("alice", pods+"?watch=1")
	if w := ask("bob", "GET", pods, ""); w.Code != http.StatusOK {
		t.Errorf("a watch that has begun keeps its seat: %d", w.Code)
	}
	leave()
}

// TestAdministratorsWait lets an administrator send more requests than there are seats: the others wait, and are not refused. Requests of
// other users, and of other administrators, do not wait for them.
func TestAdministratorsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Handler{machine: clock.Real()}
		s.fair, s.exempt = s.newLimit(), s.newExempt()
		release := make(chan struct{})
		var inside atomic.Int64
		h := s.priorityAndFairness(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if inside.Add(1); callOf(r).user.GetName() == "admin" {
				<-release
			}
		}))
		ask := func(name, path string, groups ...string) int {
			r := httptest.NewRequest("GET", path, nil)
			c := &call{user: &user.DefaultInfo{Name: name, Groups: groups}, address: parseAddress("GET", r.URL)}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(withCall(t.Context(), c)))
			return w.Code
		}
		const pods, waiting = "/api/v1/pods", 1000
		answers := make(chan int, seats()+waiting)
		for range cap(answers) {
			go func() { answers <- ask("admin", pods, user.SystemPrivilegedGroup) }()
		}
		synctest.Wait()
		if n := inside.Load(); n != int64(seats()/2) {
			t.Errorf("%d requests of one administrator are executed, want %d", n, seats()/2)
		}
		for _, other := range []struct {
			name, path string
			groups     []string
		}{{"bob", pods, nil}, {"bob", "/readyz", nil}, {"root", pods, []string{user.SystemPrivilegedGroup}}} {
			if code := ask(other.name, other.path, other.groups...); code != http.StatusOK {
				t.Errorf("%s %s: got %d", other.name, other.path, code)
			}
		}
		close(release)
		for range cap(answers) {
			if code := <-answers; code != http.StatusOK {
				t.Fatalf("a request of the administrator that has waited: got %d", code)
			}
		}
	})
}

func TestWidthOfLists(t *testing.T) {
	for _, c := range []struct {
		objects, want int
		path          string
	}{
		{0, 1, "/api/v1/pods"},
		{82, 1, "/api/v1/pods"},
		{500, 12, "/api/v1/pods"},
		{100_000, listSeats, "/api/v1/pods"},
		{100_000, 2, "/api/v1/pods?limit=100"},
		{100_000, 1, "/api/v1/namespaces/default/pods/p"},
	} {
		s := &Handler{config: Config{Count: func(schema.GroupResource) int { return c.objects }}}
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if got := s.width(&call{address: parseAddress(r.Method, r.URL)}, r); got != c.want {
			t.Errorf("%s of %d objects: got %d, want %d", c.path, c.objects, got, c.want)
		}
	}
}
