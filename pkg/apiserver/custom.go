package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/bootstrap"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/convert"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/definitions"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/direct"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// newRegistrar returns the registrar, which adds and removes custom resources as their definitions change.
func (s *Server) newRegistrar() *definitions.Registrar {
	return definitions.New(definitions.Config{
		Client: direct.New(s.api, s.rows.LookupStored, self, bootstrap.Agent), Clock: s.clock, Serve: s.serveCustom,
		Convert: convert.New(s.engine.Reader(), s.random.UID),
	})
}

// serveCustom replaces the custom resource that is served as gr by r; a nil r removes it. It returns false when gr is
// compiled in.
func (s *Server) serveCustom(gr schema.GroupResource, r *objects.Resource) bool {
	defer s.bootstrap.ServedChanged()
	set := s.rows.Set(gr, r, s.engine.Replace)
	if set && r == nil && !s.rows.Has(gr.Resource) {
		s.handler.Forget(gr.Resource)
	}
	return set
}

// awaitDefinitions delays the response to the write of a CustomResourceDefinition until its resource is served, so that
// the client's next request finds it. Kubernetes responds earlier.
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

// terminating refuses new custom resources while their definition is being deleted.
type terminating struct{ server *Server } // a Server, because its registrar is created after the stages

// Name implements stage.Mutator.
func (terminating) Name() string { return "CustomResourceTermination" }

// Mutate implements stage.Mutator. It changes nothing.
func (t terminating) Mutate(ctx context.Context, a *stage.Admission) error {
	if t.server.registrar == nil {
		return nil
	}
	return t.server.registrar.Admit(ctx, a)
}
