package httpapi

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/rows"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
)

// handlers maps verbs to their handlers.
var handlers = map[string]func(*Handler, http.ResponseWriter, *http.Request, *verbs.Request) error{
	"get": (*Handler).get, "list": (*Handler).list, "watch": (*Handler).watch,
	"create": (*Handler).create, "update": (*Handler).update, "patch": (*Handler).patch,
	"delete": (*Handler).delete, "deletecollection": (*Handler).deleteCollection,
}

// serveResource serves the paths below /api/V and /apis/G/V.
func (s *Handler) serveResource(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	a := c.address
	t, ok := s.config.Rows.Table().Resources.Find(a.gvr())
	if !ok {
		s.unknown(w, r)
		return
	}
	req := s.request(c, t)
	req.UserAgent, req.Path = r.UserAgent(), r.URL.Path
	if s.config.Audit != nil {
		req.Audit = c.audit
	}
	if err := s.config.Authorize(r.Context(), req); err != nil {
		fail(w, r, err)
		return
	}
	if err := s.allowed(a, t); err != nil {
		fail(w, r, err)
		return
	}
	if r.Method == http.MethodHead && !t.Resource.Custom() && a.subresource != proxied {
		fail(w, r, errNoMethod) // as in Kubernetes
		return
	}
	if connector, ok := connect.Connectors[a.subresource]; ok {
		s.connect(w, r, req, connector)
		return
	}
	c.warn(t.Version.Deprecated)
	if err := handlers[a.verb](s, w, r, req); err != nil {
		fail(w, r, err)
	}
}

// request returns the engine's request for a call.
func (s *Handler) request(c *call, t rows.Target) *verbs.Request {
	a := c.address
	return &verbs.Request{
		Attributes: stage.Attributes{
			User: c.user, Verb: a.verb, Resource: t.Resource,
			GVR:         schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource},
			Subresource: a.subresource, Namespace: a.namespace, Name: a.name, Fields: a.fields, Warn: c.warn,
		},
		Version: t.Version, Report: c.report, Began: c.began, Stages: c.stages,
	}
}

// allowed checks that the resource has the path, and the path the method.
func (s *Handler) allowed(a address, t rows.Target) error {
	n := t.Resource.Names
	switch {
	case len(a.rest) > 0 && a.subresource != proxied, n.Cluster && a.namespace != "" && !a.isNamespace():
		return errNoResource
	case a.misused:
		return errNoMethod
	case a.subresource != "":
		return allowedBelow(a, t)
	case (a.named || !slices.Contains(t.Resource.Verbs, "list")) && !n.Cluster && a.namespace == "":
		return errNoResource
	case a.named && !slices.Contains(t.Resource.Verbs, "get"):
		return errNoResource // a review is never stored
	case a.named:
		if a.verb == "create" {
			return errNoMethod
		}
	case a.verb == "update", a.verb == "patch":
		return errNoMethod
	case !n.Cluster && a.namespace == "" && a.verb != "list" && a.verb != "watch":
		return errNoMethod // a write needs a namespace
	}
	return has(t.Resource.Verbs, a.verb)
}

// allowedBelow checks the same for paths of subresources.
func allowedBelow(a address, t rows.Target) error {
	sub, ok := codec.SubresourceOf(t.Resource, a.subresource)
	if !ok || !t.Resource.Names.Cluster && a.namespace == "" {
		return errNoResource
	}
	if sub.Name == proxied { // any method
		return nil
	}
	return has(sub.Verbs, a.verb)
}

// proxied is the subresource whose remaining path goes to its backend.
const proxied = "proxy"

func has(verbs []string, verb string) error {
	if verb == "" || !slices.Contains(verbs, verb) {
		return errNoMethod
	}
	return nil
}

// unknown responds to a request for a resource without a row.
func (s *Handler) unknown(w http.ResponseWriter, r *http.Request) {
	if err := s.authorizePath(r); err != nil {
		fail(w, r, err)
		return
	}
	a := callOf(r).address
	rs, gv := s.config.Rows.Table().Resources, schema.GroupVersion{Group: a.group, Version: a.version}
	if rs.Versions[gv] && !rs.Custom[gv] {
		fail(w, r, errNoResource)
		return
	}
	s.noResource(w, r, a.group)
}
