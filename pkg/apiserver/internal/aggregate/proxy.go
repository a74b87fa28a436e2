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

// ownTimeout bounds requests for discovery and OpenAPI documents.
const ownTimeout = 5 * time.Second

// Requester is the user of a proxied request.
type Requester struct {
	User    user.Info
	AuditID string
	Timeout func(w http.ResponseWriter, r *http.Request) // writes the response of a timed-out request
}

// unavailable is the message while an extension is not available.
const unavailable = "service unavailable"

// serve proxies a request to the extension server.
func (e *extension) serve(w http.ResponseWriter, r *http.Request, client Requester) {
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
	if segments(r.URL) == 3 { // discovery, which has a shorter timeout
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ownTimeout)
		defer cancel()
	}
	out := r.Clone(ctx)
	out.URL, out.Host = location, location.Host
	out.Header.Del("Authorization") // the credentials are for this server only
	if client.AuditID != "" {
		out.Header.Set("Audit-Id", client.AuditID)
	}
	transport.SetAuthProxyHeaders(out, client.User.GetName(), client.User.GetUID(), client.User.GetGroups(), client.User.GetExtra())
	h := utilproxy.NewUpgradeAwareHandler(location, e.link.transport, true, false, proxyError{r, client.Timeout})
	h.RejectForwardingRedirects = true
	h.ServeHTTP(backend.Hijackable(w), out)
}

func segments(u *url.URL) int { return len(strings.Split(strings.Trim(u.Path, "/"), "/")) }

// proxyError is the response to a request that could not be proxied.
type proxyError struct {
	request *http.Request
	late    func(w http.ResponseWriter, r *http.Request)
}

func (f proxyError) Error(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(context.Cause(f.request.Context()), context.DeadlineExceeded) {
		f.late(w, f.request)
		return
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// available reports whether the condition Available is true.
func available(s *apiregistrationv1.APIService) bool {
	c := condition(s)
	return c != nil && c.Status == apiregistrationv1.ConditionTrue
}
