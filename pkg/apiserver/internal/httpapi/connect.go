package httpapi

import (
	"context"
	"net/http"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/connect"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
)

// connect admits a connection and calls its connector. The connection ends when the server stops.
func (s *Handler) connect(w http.ResponseWriter, r *http.Request, req *verbs.Request, c connect.Connector) {
	a := &req.Attributes
	change := &stage.Admission{Attributes: a, Operation: stage.Connect}
	err := s.authorizeStream(r, a)
	if err == nil {
		change.Sub, err = connect.Options(a.GVR.Resource, a.Subresource, r.URL.Query(), callOf(r).address.rest)
	}
	if err == nil {
		err = s.config.Stages.Validate(r.Context(), change)
	}
	if err == nil {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.config.Stopping, cancel)()
		err = c(s.config.Kubelets, w, r.WithContext(ctx), connect.Target{
			Key: objects.Key{Namespace: a.Namespace, Name: a.Name}, Resource: a.GVR.Resource, Fail: fail,
		})
	}
	if err != nil {
		fail(w, r, err)
	}
}

// authorizeStream also requires the verb create for exec, attach and portforward over GET, which WebSockets use: the
// right to get a pod does not include running commands in it.
func (s *Handler) authorizeStream(r *http.Request, a *stage.Attributes) error {
	if a.Subresource == "log" || a.Subresource == "proxy" || a.Verb != "get" {
		return nil
	}
	create := *a
	create.Verb = "create"
	return s.authorize(r, &create)
}
