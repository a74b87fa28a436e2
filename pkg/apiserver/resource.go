package apiserver

import (
	"net/http"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// resources finds rows by what a path says.
type resources struct {
	byGVR    map[schema.GroupVersionResource]target
	versions map[schema.GroupVersion]bool
	custom   map[schema.GroupVersion]bool // of the versions, those that somebody has defined
	groups   map[string]bool              // that are built in, and have a name
}

// target is a row in one of the versions it is served in.
type target struct {
	resource *objects.Resource
	served   *objects.Served
}

func indexResources(rows []*objects.Resource) resources {
	rs := resources{byGVR: map[schema.GroupVersionResource]target{}, versions: map[schema.GroupVersion]bool{},
		custom: map[schema.GroupVersion]bool{}, groups: map[string]bool{}}
	for _, r := range rows {
		for j := range r.Versions {
			v := &r.Versions[j]
			if v.Unserved {
				continue
			}
			gv := schema.GroupVersion{Group: v.Group, Version: v.Version}
			rs.versions[gv] = true
			if r.Custom() {
				rs.custom[gv] = true
			} else if gv.Group != "" {
				rs.groups[gv.Group] = true
			}
			rs.byGVR[gv.WithResource(r.Names.Plural)] = target{r, v}
		}
	}
	return rs
}

func (rs resources) find(a address) (target, bool) {
	t, ok := rs.byGVR[schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource}]
	return t, ok
}

// lookup finds a row for the in-process client.
func (s *Server) lookup(gvr schema.GroupVersionResource) *verbs.Served {
	t, ok := s.served().resources.byGVR[gvr]
	if !ok {
		return nil
	}
	return &verbs.Served{Resource: t.resource, Version: t.served, Stored: t.served.To == nil}
}

// handlers maps the verb of a request to what serves it.
var handlers = map[string]func(*Server, http.ResponseWriter, *http.Request, *verbs.Request) error{
	"get": (*Server).get, "list": (*Server).list, "watch": (*Server).watch,
	"create": (*Server).create, "update": (*Server).update, "patch": (*Server).patch,
	"delete": (*Server).delete, "deletecollection": (*Server).deleteCollection,
}

// serveResource answers a request for a path below a version of the API.
func (s *Server) serveResource(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	a := c.address
	t, ok := s.served().resources.find(a)
	if !ok {
		s.unknown(w, r)
		return
	}
	req := s.request(c, t)
	req.UserAgent, req.Path = r.UserAgent(), r.URL.Path
	// The engine asks again, for whoever comes to it without HTTP. Here it is asked first, so that a client learns nothing,
	// and costs no more, before it is known to be allowed.
	if err := s.authorize(r, &req.Attributes); err != nil {
		fail(w, r, err)
		return
	}
	if err := s.allowed(a, t); err != nil {
		fail(w, r, err)
		return
	}
	if r.Method == http.MethodHead && !t.resource.Custom() && a.subresource != proxied {
		fail(w, r, errNoMethod) // routes have none
		return
	}
	if connector, ok := connect.Connectors[a.subresource]; ok {
		s.connect(w, r, req, connector)
		return
	}
	if err := s.furnish(r.Context(), a); err != nil {
		fail(w, r, err)
		return
	}
	if a.group == apiregistrationv1.GroupName {
		defer s.registrationsChanged(r.Context())
	}
	if a.group == flowcontrolv1.GroupName {
		defer s.flowSchemasChanged(r.Context())
	}
	c.warn(t.served.Deprecated)
	if err := handlers[a.verb](s, w, r, req); err != nil {
		fail(w, r, err)
	}
}

// request makes the engine's request of a call.
func (s *Server) request(c *call, t target) *verbs.Request {
	a := c.address
	return &verbs.Request{
		Attributes: stage.Attributes{
			User: c.user, Verb: a.verb, Resource: t.resource,
			GVR:         schema.GroupVersionResource{Group: a.group, Version: a.version, Resource: a.resource},
			Subresource: a.subresource, Namespace: a.namespace, Name: a.name, Fields: a.fields, Warn: c.warn,
		},
		Served: t.served, Report: c.report, Began: c.began, Stages: c.stages,
	}
}

// allowed checks that the row has the path and the path the method.
func (s *Server) allowed(a address, t target) error {
	n := t.resource.Names
	switch {
	case len(a.rest) > 0 && a.subresource != proxied, n.Cluster && a.namespace != "" && !a.isNamespace():
		return errNoResource
	case a.misused:
		return errNoMethod
	case a.subresource != "":
		return allowedBelow(a, t)
	case (a.named || !slices.Contains(t.resource.Verbs, "list")) && !n.Cluster && a.namespace == "":
		return errNoResource
	case a.named && !slices.Contains(t.resource.Verbs, "get"):
		return errNoResource // a review is asked for and not kept
	case a.named:
		if a.verb == "create" {
			return errNoMethod
		}
	case a.verb == "update", a.verb == "patch":
		return errNoMethod
	case !n.Cluster && a.namespace == "" && a.verb != "list" && a.verb != "watch":
		return errNoMethod // all namespaces can be read only
	}
	return has(t.resource.Verbs, a.verb)
}

// allowedBelow is allowed for subresources.
func allowedBelow(a address, t target) error {
	sub, ok := codec.SubresourceOf(t.resource, a.subresource)
	if !ok || !t.resource.Names.Cluster && a.namespace == "" {
		return errNoResource
	}
	if sub.Name == proxied { // passes every method on
		return nil
	}
	return has(sub.Verbs, a.verb)
}

// proxied is the subresource whose path goes on at its backend.
const proxied = "proxy"

func has(verbs []string, verb string) error {
	if verb == "" || !slices.Contains(verbs, verb) {
		return errNoMethod
	}
	return nil
}

// unknown answers for a resource that no row has.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	if err := s.mayAsk(r); err != nil {
		fail(w, r, err)
		return
	}
	a := callOf(r).address
	rs, gv := s.served().resources, schema.GroupVersion{Group: a.group, Version: a.version}
	if rs.versions[gv] && !rs.custom[gv] {
		fail(w, r, errNoResource)
		return
	}
	s.noResource(w, r, a.group)
}
