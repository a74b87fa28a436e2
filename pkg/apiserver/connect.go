package apiserver

import (
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

// connect authorizes and admits a connection and hands it over.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, req *verbs.Request, c connect.Connector) {
	a := &req.Attributes
	a.Operation = stage.Connect
	err := s.authorize(r, a)
	for _, v := range s.stages.Validators {
		if err == nil {
			err = v.Admit(r.Context(), a)
		}
	}
	if err == nil {
		err = c(s.kubelets, w, r, objects.Key{Namespace: a.Namespace, Name: a.Name})
	}
	if err != nil {
		fail(w, r, err)
	}
}
