package httpapi

import (
	"bytes"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	metricsapi "github.com/minikctl/minikctl/pkg/objects/metrics"
)

// Documents returns a transport for libraries that read discovery, OpenAPI and metrics in the server's process. Its requests
// have the user u and need no seat. Of the resources it serves those of extension servers and of metrics.k8s.io.
func (s *Handler) Documents(u user.Info) http.RoundTripper {
	as := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			callOf(r).user = u
			next.ServeHTTP(w, r)
		})
	}
	return documents{s, chain(s.routes(), []filter{s.begin, s.recover, s.deadline, as})}
}

// documents serves requests without a connection.
type documents struct {
	server  *Handler
	handler http.Handler
}

// serves reports whether a path is served. An extension server may serve the metrics, and is part of neither the rows nor the direct
// client.
func (d documents) serves(r *http.Request) bool {
	a := parseAddress(r.Method, r.URL)
	if !a.resourceful || a.group == metricsapi.Group.Name {
		return true
	}
	serve, err := d.server.config.Extensions.Find(r.Context(), a.gvr().GroupVersion())
	return err == nil && serve != nil
}

func (d documents) RoundTrip(r *http.Request) (*http.Response, error) {
	a := &memoryResponse{header: http.Header{}}
	if d.serves(r) {
		d.handler.ServeHTTP(a, r)
	} else {
		http.NotFound(a, r)
	}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}

// memoryResponse is a ResponseWriter in memory.
type memoryResponse struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *memoryResponse) Header() http.Header { return a.header }

func (a *memoryResponse) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *memoryResponse) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
