package apiserver

import (
	"bytes"
	"net"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/audit"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// AuditConfig says what the audit log tells, and where it is written.
type AuditConfig = audit.Config

// record has the audit log tell of requests.
func (s *Server) record(next http.Handler) http.Handler {
	if s.audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := s.entry(w, r, callOf(r).address.longRunning(r.URL))
		e.Received()
		defer e.Complete()
		next.ServeHTTP(e.Writer(w), r)
	})
}

// refused returns w for the answer to a request that came no further than to its user's name. That answer is all that the
// audit log tells of it.
func (s *Server) refused(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if s.audit == nil {
		return w
	}
	return s.entry(w, r, true).Writer(w)
}

// entry begins the entry of a request.
func (s *Server) entry(w http.ResponseWriter, r *http.Request, long bool) *audit.Entry {
	c := callOf(r)
	a := c.address
	asked := audit.Request{
		ID: w.Header().Get("Audit-Id"), Received: c.began, User: c.user, Verb: a.verb, URI: r.URL.RequestURI(), Path: r.URL.Path,
		UserAgent: r.UserAgent(), Sources: sources(r), Long: long,
	}
	if a.resourceful {
		asked.Object = &auditv1.ObjectReference{
			APIGroup: a.group, APIVersion: a.version, Resource: a.resource, Subresource: a.subresource, Namespace: a.namespace, Name: a.name,
		}
	}
	c.audit = s.audit.Begin(asked)
	return c.audit
}

// sources are the addresses that a request came from: those that proxies tell of, and the last one's own.
func sources(r *http.Request) []string {
	var out []string
	for _, ip := range utilnet.SourceIPs(r) {
		out = append(out, ip.String())
	}
	if local, _ := r.Context().Value(localKey{}).(bool); local && len(out) == 0 {
		out = []string{net.IPv4(127, 0, 0, 1).String()}
	}
	return out
}

// audited shows the audit log what is answered, where it wants to know: as JSON, whatever the client is given. write
// writes it.
func audited(r *http.Request, m codec.Media, write func(*audit.Entry, http.ResponseWriter, *http.Request, codec.Media) error) {
	e := callOf(r).audit
	if !e.Answers() {
		return
	}
	m.Format, m.Pretty = codec.JSON, false
	bare := (&http.Request{Method: r.Method, URL: r.URL, Header: http.Header{}}).WithContext(r.Context()) // not to be compressed
	var answer audit.Answer
	err := write(e, &answer, bare, m)
	e.Answered(bytes.TrimSpace(answer.Bytes()), err)
}
