package apiserver

import (
	"context"
	"net/http"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// newConnectors makes what serves the subresources that are no data: connect.Connectors lists them.
func (s *Server) newConnectors(cfg Config) error {
	pair, err := cfg.PKI.KubeletClient()
	if err != nil {
		return err
	}
	identity, err := pair.TLS()
	if err != nil {
		return err
	}
	s.kubelets = connect.NewKubelets(s.engine.Reader(), identity)
	return nil
}

// connect admits a connection and hands it over. It ends with the server at the latest.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, req *verbs.Request, c connect.Connector) {
	a := &req.Attributes
	change := &stage.Admission{Attributes: a, Operation: stage.Connect}
	err := s.mayStream(r, a)
	if err == nil {
		change.Sub, err = connect.Options(a.GVR.Resource, a.Subresource, r.URL.Query(), callOf(r).address.rest)
	}
	if err == nil {
		err = s.stages.Validate(r.Context(), change)
	}
	if err == nil {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		err = c(s.kubelets, w, r.WithContext(ctx), connect.Target{
			Key: objects.Key{Namespace: a.Namespace, Name: a.Name}, Resource: a.GVR.Resource, Fail: fail,
		})
	}
	if err != nil {
		fail(w, r, err)
	}
}

// mayStream also asks whether who gets a stream into a container may create it: WebSockets can only be asked for by GET,
// and to read is not to run.
func (s *Server) mayStream(r *http.Request, a *stage.Attributes) error {
	if a.Subresource == "log" || a.Subresource == "proxy" || a.Verb != "get" {
		return nil
	}
	create := *a
	create.Verb = "create"
	return s.authorize(r, &create)
}
