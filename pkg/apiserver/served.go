package apiserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/convert"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/definitions"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/discovery"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/openapi"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// served is everything that is served at a time, and how clients find it. It never changes: when custom resources come
// and go, another one takes its place, and requests that have begun go on with the one that they have seen.
type served struct {
	resources resources
	catalog   func() *discovery.Catalog // made when it is first asked for, as are the others
	decoder   func() *codec.Decoder
	openapi   func() *openapi.Specs
}

func newServed(rows []*objects.Resource) *served {
	return &served{
		resources: indexResources(rows),
		catalog:   sync.OnceValue(func() *discovery.Catalog { return discovery.New(rows) }),
		decoder:   sync.OnceValue(func() *codec.Decoder { return codec.NewDecoder(rows) }),
		openapi:   sync.OnceValue(func() *openapi.Specs { return openapi.New(rows) }),
	}
}

// rows holds the rows that make up what is served: those compiled in, and those of custom resources.
type rows struct {
	now atomic.Pointer[served]

	mu     sync.Mutex
	fixed  []*objects.Resource
	custom map[schema.GroupResource]*objects.Resource
}

// builtin sets what is compiled in.
func (rs *rows) builtin(list []objects.Resource) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.custom = map[schema.GroupResource]*objects.Resource{}
	rs.fixed = objects.Each(list)
	rs.now.Store(newServed(rs.fixed))
}

// set serves r under gr, or with nil no longer anything. What is compiled in stays what it is: then set returns false.
// swap is told of the row before and of r, in between: nobody finds r yet, and nobody new the row before.
func (rs *rows) set(gr schema.GroupResource, r *objects.Resource, swap func(old, r *objects.Resource)) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if slices.ContainsFunc(rs.fixed, func(f *objects.Resource) bool { return f.Names.GR() == gr }) {
		return false
	}
	old := rs.custom[gr]
	if old == r {
		return true
	}
	delete(rs.custom, gr)
	if r != nil {
		rs.custom[gr] = r
	}
	swap(old, r)
	rs.now.Store(newServed(append(slices.Clone(rs.fixed), rs.sorted()...)))
	return true
}

// any reports whether something is served under a name, in whatever group.
func (rs *rows) any(plural string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	named := func(r *objects.Resource) bool { return r.Names.Plural == plural }
	return slices.ContainsFunc(rs.fixed, named) || slices.ContainsFunc(rs.sorted(), named)
}

// sorted are the custom rows in the order of their names.
func (rs *rows) sorted() []*objects.Resource {
	out := make([]*objects.Resource, 0, len(rs.custom))
	for _, r := range rs.custom {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *objects.Resource) int { return strings.Compare(a.Names.GR().String(), b.Names.GR().String()) })
	return out
}

// served is what is served now.
func (s *Server) served() *served { return s.rows.now.Load() }

// serveCustom serves r, a custom resource, under gr in place of what was served there; with nil nothing. It returns false when
// gr is compiled in.
func (s *Server) serveCustom(gr schema.GroupResource, r *objects.Resource) bool {
	defer s.servedChanged()
	set := s.rows.set(gr, r, s.engine.Replace)
	if set && r == nil && !s.rows.any(gr.Resource) {
		s.metrics.forget(gr.Resource)
	}
	return set
}

// lookupStored is lookup that also finds the version in which a custom resource is stored when that is not served.
func (s *Server) lookupStored(gvr schema.GroupVersionResource) *verbs.Served {
	if found := s.lookup(gvr); found != nil {
		return found
	}
	s.rows.mu.Lock()
	defer s.rows.mu.Unlock()
	r := s.rows.custom[gvr.GroupResource()]
	if r == nil || r.Names.Version != gvr.Version {
		return nil
	}
	return &verbs.Served{Resource: r, Version: &r.Versions[0], Stored: true}
}

// newRegistrar makes what has custom resources served.
func (s *Server) newRegistrar() *definitions.Registrar {
	return definitions.New(definitions.Config{
		Client: direct.New(s.api, s.lookupStored, self, systemAgent), Clock: s.clock, Serve: s.serveCustom,
		Convert: convert.New(s.engine.Reader(), s.chance.UID),
	})
}

// awaitDefinitions lets those who write a definition have their answer when it has been acted on: what they ask next finds
// what is described. Kubernetes leaves them to look.
func (s *Server) awaitDefinitions() stage.Hook {
	prepare := func(_ context.Context, tx *stage.Transaction, crd, old objects.Object) error {
		tx.OnCommit(func(ctx context.Context) {
			if s.registrar != nil && (old == nil || old.GetGeneration() != crd.GetGeneration()) {
				s.registrar.Await(ctx, crd.GetUID(), crd.GetGeneration())
			}
		})
		return nil
	}
	return stage.Hook{Resource: definitions.Resource.GroupResource(), Prepare: prepare}
}

// terminating refuses new custom resources of a kind that is being deleted. The registrar is made after the stages.
type terminating struct{ server *Server }

// Name implements stage.Mutator.
func (terminating) Name() string { return "CustomResourceTermination" }

// Mutate implements stage.Mutator. It changes nothing.
func (t terminating) Mutate(ctx context.Context, a *stage.Admission) error {
	if t.server.registrar == nil {
		return nil
	}
	return t.server.registrar.Admit(ctx, a)
}
