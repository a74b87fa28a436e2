package apiserver

import (
	"context"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/allocate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// newEngine makes the engine with its stages, and the authenticators, which read through it.
func (s *Server) newEngine(cfg Config) error {
	services, err := allocate.Services(allocate.Config{Addresses: cfg.ServiceAddresses, Changed: s.servicesChanged}, cfg.Source)
	if err != nil {
		return err
	}
	s.engine, err = verbs.New(verbs.Config{
		Store: cfg.Store, Resources: cfg.Resources, Clock: cfg.Clock, Source: cfg.Source,
		Stages:  s.newStages,
		Hooks:   []stage.Hook{services, s.awaitDefinitions()},
		Reviews: s.reviews(),
		Spans:   s.virtual.Span,
		Token: func(ctx context.Context, account objects.Key, asked *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return s.issuer.Request(ctx, account, asked) // which is made with the engine's reader, below
		},
	})
	if err != nil {
		return err
	}
	if s.issuer, err = tokens.New(cfg.PKI.TokenKey(), tokens.DefaultIssuer, s.engine.Reader(), cfg.Clock); err != nil {
		return err
	}
	static := authn.Static{}
	if cfg.TokenFile != "" {
		if static, err = authn.ReadTokens(cfg.TokenFile); err != nil {
			return err
		}
	}
	s.authn = authn.New(authn.Config{
		Clients: cfg.PKI.Pool(), Static: static, Issuer: s.issuer, Clock: cfg.Clock, Reader: s.engine.Reader(),
		More:  []stage.Authenticator{localPeer{}},
		Front: &authn.FrontProxy{Roots: cfg.PKI.FrontProxyPool, Names: []string{pki.FrontProxyClient}},
	})
	return nil
}

// newStages lists what requests pass in the engine.
func (s *Server) newStages(r stage.Reader) stage.Stages {
	authorizers := authz.New(r)
	s.stages = admission.New(admission.Config{
		Reader: r, Source: s.source, Clock: s.clock, Quota: s.updateQuota,
		Authorizers: authorizers, UID: s.chance.UID, Find: s.findKind,
	})
	s.stages.Authorizers = authorizers
	s.stages.Mutators = append(s.stages.Mutators, authz.NewEscalation(s.stages.Authorizers))
	s.stages.Mutators = append(s.stages.Mutators, terminating{s})
	if len(s.unattended) > 0 {
		s.stages.Mutators = slices.Insert(s.stages.Mutators, 0, stage.Mutator(s.unattended))
	}
	if s.podWarnings != nil {
		s.stages.Mutators = slices.Insert(s.stages.Mutators, 0, stage.Mutator(fieldWarnings{s.podWarnings}))
	}
	return s.stages
}

// check asks the authorizers.
func (s *Server) check(ctx context.Context, a *stage.Attributes) error {
	return authz.Check(ctx, s.stages.Authorizers, a)
}

func (s *Server) authorize(r *http.Request, a *stage.Attributes) error {
	if s.audit != nil {
		a.Audit = callOf(r).audit
	}
	return s.check(r.Context(), a)
}

// updateQuota stores the status of a quota, as the server itself.
func (s *Server) updateQuota(ctx context.Context, q *corev1.ResourceQuota) error {
	quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	target := client.In(quotas, objects.Key{Namespace: q.Namespace, Name: q.Name}).Sub("status")
	_, err := s.Client(self, "kube-apiserver").Update(ctx, target, q, metav1.UpdateOptions{})
	return err
}

// self is who the server is to itself.
var self = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}

// findKind returns the resource of a kind, in the version asked for; nil when it is not served.
func (s *Server) findKind(kind schema.GroupVersionKind) (*objects.Resource, *objects.Served) {
	for gvr, t := range s.served().resources.byGVR {
		if gvr.GroupVersion() == kind.GroupVersion() && t.resource.Names.Kind == kind.Kind {
			return t.resource, t.served
		}
	}
	return nil, nil
}
