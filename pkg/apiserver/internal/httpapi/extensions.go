package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/aggregate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// delegated proxies an authorized request to the extension server of its version. It reports whether it has responded.
func (s *Handler) delegated(w http.ResponseWriter, r *http.Request) bool {
	c := callOf(r)
	gv, ok := versionIn(r.URL.Path)
	if !ok {
		return false
	}
	serve, err := s.config.Extensions.Find(r.Context(), gv)
	if err == nil && serve == nil {
		return false
	}
	if err == nil {
		err = s.authorizePath(r)
	}
	if err != nil {
		fail(w, r, err)
		return true
	}
	s.proxy(w, r, c, serve)
	return true
}

// proxy proxies a request, and cancels it when the server stops.
func (s *Handler) proxy(w http.ResponseWriter, r *http.Request, c *call, serve aggregate.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.config.Stopping, cancel)()
	if c.address.verb == "watch" {
		c.seat.Leave() // as for watches of this server's own resources
	}
	serve(w, r.WithContext(ctx), aggregate.Requester{User: c.user, AuditID: w.Header().Get("Audit-Id"), Timeout: timedOut})
}

// timedOut responds to a request whose deadline is over.
func timedOut(w http.ResponseWriter, r *http.Request) { fail(w, r, context.DeadlineExceeded) }

// versionIn returns the group and version of a path.
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

// authorizePath authorizes a request for a path without a row.
func (s *Handler) authorizePath(r *http.Request) error {
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

// catalog returns the discovery documents of this server and the extension servers.
func (s *Handler) catalog(ctx context.Context) *discovery.Catalog {
	here := s.config.Rows.Table().Catalog()
	remote, err := s.config.Extensions.Discovery(ctx)
	if err != nil {
		slog.WarnContext(ctx, "discovery without the extension servers", "err", err)
		return here
	}
	return here.With(remote)
}

// describe serves the OpenAPI documents of this server and the extension servers.
func (s *Handler) describe(w http.ResponseWriter, r *http.Request) {
	const v3 = "/openapi/v3"
	if gv, ok := versionIn(strings.TrimPrefix(r.URL.Path, v3)); ok && strings.HasPrefix(r.URL.Path, v3) {
		serve, err := s.config.Extensions.Describes(r.Context(), gv)
		if err != nil {
			fail(w, r, err)
			return
		}
		if serve != nil {
			s.proxy(w, r, callOf(r), serve)
			return
		}
	}
	remote, err := s.config.Extensions.OpenAPI(r.Context(), !strings.HasPrefix(r.URL.Path, v3))
	if err != nil {
		fail(w, r, err)
		return
	}
	s.config.Rows.Table().OpenAPI().With(remote).ServeHTTP(w, r)
}
