package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/aggregate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// newExtensions makes what knows the servers that answer for more of the API.
func (s *Server) newExtensions() *aggregate.Extensions {
	return aggregate.New(aggregate.Config{
		Reader: s.engine.Reader(), Clock: s.clock, Identity: s.pki.FrontProxy, Self: s.public,
		Client: func() client.Client { return s.Client(self, systemAgent) },
	})
}

// delegated passes a request on when another server answers for its path, once whoever asks is known to be allowed. It
// reports whether the request is answered.
func (s *Server) delegated(w http.ResponseWriter, r *http.Request) bool {
	c := callOf(r)
	gv, ok := versionIn(r.URL.Path)
	if !ok {
		return false
	}
	serve, err := s.extensions.Find(r.Context(), gv)
	if err == nil && serve == nil {
		return false
	}
	if err == nil {
		err = s.mayAsk(r)
	}
	if err != nil {
		fail(w, r, err)
		return true
	}
	s.pass(w, r, c, serve)
	return true
}

// pass hands a request over. It ends with the server at the latest.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, c *call, serve aggregate.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if c.leave != nil && c.address.verb == "watch" {
		c.leave() // as for watches here
	}
	serve(w, r.WithContext(ctx), aggregate.Asker{User: c.user, AuditID: w.Header().Get("Audit-Id"), Late: late})
}

// late answers a request that has taken too long.
func late(w http.ResponseWriter, r *http.Request) { fail(w, r, context.DeadlineExceeded) }

// versionIn returns the version that a path leads to or below.
func versionIn(path string) (schema.GroupVersion, bool) {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4)
	switch {
	case parts[0] == "apis" && len(parts) >= 3 && parts[1] != "" && parts[2] != "":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	case parts[0] == "api" && len(parts) >= 2 && parts[1] != "":
		return schema.GroupVersion{Version: parts[1]}, true
	}
	return schema.GroupVersion{}, false
}

// mayAsk authorizes a request of which no row says what it is about.
func (s *Server) mayAsk(r *http.Request) error {
	c := callOf(r)
	a := c.address
	attributes := &stage.Attributes{User: c.user, UserAgent: r.UserAgent(), Verb: a.verb, Path: r.URL.Path, Warn: c.warn}
	if a.resourceful {
		attributes.GVR = schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource}
		attributes.Resource = &objects.Resource{Names: objects.Names{Group: a.group, Version: a.version, Plural: a.resource}}
		attributes.Subresource, attributes.Namespace, attributes.Name, attributes.Fields = a.subresource, a.namespace, a.name, a.fields
	}
	return s.authorize(r, attributes)
}

// catalog is what is served now, here and by other servers.
func (s *Server) catalog(ctx context.Context) *discovery.Catalog {
	here := s.served().catalog()
	remote, err := s.extensions.Discovery(ctx)
	if err != nil {
		slog.WarnContext(ctx, "what extension servers serve is not told", "err", err)
		return here
	}
	return here.With(remote)
}

// describe answers with what describes the API, here and at other servers.
func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	const v3 = "/openapi/v3"
	if gv, ok := versionIn(strings.TrimPrefix(r.URL.Path, v3)); ok && strings.HasPrefix(r.URL.Path, v3) {
		serve, err := s.extensions.Describes(r.Context(), gv)
		if err != nil {
			fail(w, r, err)
			return
		}
		if serve != nil {
			s.pass(w, r, callOf(r), serve)
			return
		}
	}
	remote, err := s.extensions.OpenAPI(r.Context(), !strings.HasPrefix(r.URL.Path, v3))
	if err != nil {
		fail(w, r, err)
		return
	}
	s.served().openapi().With(remote).ServeHTTP(w, r)
}
