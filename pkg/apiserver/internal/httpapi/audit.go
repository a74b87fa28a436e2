package httpapi

import (
	"bytes"
	"net"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/listen"
)

// record writes requests to the audit log.
func (s *Handler) record(next http.Handler) http.Handler {
	if s.config.Audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := s.entry(w, r, callOf(r).address.longRunning(r.URL))
		e.Received()
		defer e.Complete()
		next.ServeHTTP(e.Writer(w), r)
	})
}

// refused returns the writer for the response to a request that is rejected before it has a user. The audit log gets
// one event for it.
func (s *Handler) refused(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if s.config.Audit == nil {
		return w
	}
	return s.entry(w, r, true).Writer(w)
}

// entry begins the entry of a request.
func (s *Handler) entry(w http.ResponseWriter, r *http.Request, long bool) *audit.Entry {
	c := callOf(r)
	a := c.address
	req := audit.Request{
		ID: w.Header().Get("Audit-Id"), Received: c.began, User: c.user, Verb: a.verb, URI: r.URL.RequestURI(), Path: r.URL.Path,
		UserAgent: r.UserAgent(), Sources: sources(r), Long: long,
	}
	if a.resourceful {
		req.Object = &auditv1.ObjectReference{
			APIGroup: a.group, APIVersion: a.version, Resource: a.resource, Subresource: a.subresource, Namespace: a.namespace, Name: a.name,
		}
	}
	c.setAudit(s.config.Audit.Begin(req))
	return c.audit
}

// sources returns the addresses of a request: those in the proxies' headers, then that of the connection.
func sources(r *http.Request) []string {
	var out []string
	for _, ip := range utilnet.SourceIPs(r) {
		out = append(out, ip.String())
	}
	if listen.IsLocal(r.Context()) && len(out) == 0 {
		out = []string{net.IPv4(127, 0, 0, 1).String()}
	}
	return out
}

// recordResponse records the response in the audit log if the policy includes responses, as JSON whatever the client accepts.
// write writes the response.
func recordResponse(r *http.Request, m codec.Media, write func(*audit.Entry, http.ResponseWriter, *http.Request, codec.Media) error) {
	e := callOf(r).audit
	if !e.NeedsResponse() {
		return
	}
	m.Format, m.Pretty = codec.JSON, false
	bare := (&http.Request{Method: r.Method, URL: r.URL, Header: http.Header{}}).WithContext(r.Context()) // without Accept-Encoding: the response is not compressed
	var response audit.ResponseBuffer
	err := write(e, &response, bare, m)
	e.SetResponse(bytes.TrimSpace(response.Bytes()), err)
}
