package aggregate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/backend"
)

// ownTimeout is how long an extension may take to say what it serves.
const ownTimeout = 5 * time.Second

// Asker is for whom a request is passed on.
type Asker struct {
	User    user.Info
	AuditID string
	Late    func(w http.ResponseWriter, r *http.Request) // answers when the request has taken too long
}

// unavailable is the answer while an extension can't be reached.
const unavailable = "service unavailable"

// serve passes a request on to the extension server, and the answer back.
func (e *extension) serve(w http.ResponseWriter, r *http.Request, who Asker) {
	if !available(e.service) {
		http.Error(w, unavailable, http.StatusServiceUnavailable)
		return
	}
	if e.link.broken != nil {
		http.Error(w, e.link.broken.Error(), http.StatusInternalServerError)
		return
	}
	location, err := e.link.address(r.Context())
	if err != nil {
		http.Error(w, unavailable, http.StatusServiceUnavailable)
		return
	}
	location.Path, location.RawQuery = r.URL.Path, r.URL.Query().Encode()
	ctx := r.Context()
	if segments(r.URL) == 3 { // discovery, which clients wait for
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ownTimeout)
		defer cancel()
	}
	out := r.Clone(ctx)
	out.URL, out.Host = location, location.Host
	out.Header.Del("Authorization") // it was for us
	if who.AuditID != "" {
		out.Header.Set("Audit-Id", who.AuditID)
	}
	transport.SetAuthProxyHeaders(out, who.User.GetName(), who.User.GetUID(), who.User.GetGroups(), who.User.GetExtra())
	h := utilproxy.NewUpgradeAwareHandler(location, e.link.transport, true, false, refusal{r, who.Late})
	h.RejectForwardingRedirects = true
	h.ServeHTTP(backend.Hijackable(w), out)
}

func segments(u *url.URL) int { return len(strings.Split(strings.Trim(u.Path, "/"), "/")) }

// refusal answers with what went wrong on the way to an extension server.
type refusal struct {
	asked *http.Request
	late  func(w http.ResponseWriter, r *http.Request)
}

func (f refusal) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(context.Cause(f.asked.Context()), context.DeadlineExceeded) {
		f.late(w, f.asked)
		return
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// available reports whether the extension could be reached when it was last tried.
func available(s *apiregistrationv1.APIService) bool {
	c := condition(s)
	return c != nil && c.Status == apiregistrationv1.ConditionTrue
}
