package apiserver

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/allocate"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authn"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bindings"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/bootstrap"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/clocks"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/components"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/corrupt"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/listen"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/reviews"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/schedulerconfigs"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/usage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/metrics"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

// newEngine makes the verb engine with its stages.
func (s *Server) newEngine(cfg Config) error {
	services, err := allocate.Services(allocate.Config{Addresses: cfg.ServiceAddresses, Objects: s.addressObjects(cfg)}, cfg.Source)
	if err != nil {
		return err
	}
	etcd := func(ctx context.Context) error { return writable(ctx, cfg.Store) }
	s.engine, err = verbs.New(verbs.Config{
		Store: s.bootstrap.Store(), Resources: cfg.Resources, Clock: cfg.Clock, Source: cfg.Source,
		Stages: func(r stage.Reader) stage.Stages { return s.newStages(cfg, r) },
		Hooks:  []stage.Hook{services, s.awaitDefinitions()},
		Reviews: reviews.New(reviews.Config{
			Authorizers: func() []stage.Authorizer { return s.stages.Authorizers },
			Authn:       func() authenticator.Request { return s.authn }, Issuer: func() *tokens.Issuer { return s.issuer }, Clock: cfg.Clock,
		}),
		Spans: s.virtual.Span,
		Backends: map[schema.GroupResource]verbs.Backend{
			components.Resource:                       components.New(etcd, cfg.Components),
			minikctl.Decisions.GroupResource():        s.virtual,
			minikctl.Traces.GroupResource():           s.virtual,
			minikctl.Clocks.GroupResource():           clocks.New(cfg.Clock),
			minikctl.ClockAdvances.GroupResource():    clocks.New(cfg.Clock),
			minikctl.BindingBatches.GroupResource():   bindings.Backend{Client: s.Client, Concurrent: concurrentBindings(cfg.Clock)},
			minikctl.SchedulerConfigs.GroupResource(): schedulerconfigs.New(),
			minikctl.CorruptObjects.GroupResource(): corrupt.New(func() []*cache.Corrupt {
				return s.engine.Corrupt()
			}),
			metrics.Pods.GroupResource():  s.usage(usage.Pods),
			metrics.Nodes.GroupResource(): s.usage(usage.Nodes),
		},
		Token: func(ctx context.Context, account objects.Key, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return s.issuer.Request(ctx, account, request) // newAuthn makes the issuer
		},
	})
	return err
}

// concurrentBindings returns how many bindings of a batch are executed at a time: enough for few commits of the store, and one where the
// components act in turns.
func concurrentBindings(c clock.Clock) int {
	if clock.InTurns(c) {
		return 1
	}
	return 64
}

// addressObjects returns the access to ServiceCIDRs and IPAddresses; nil where they are not served.
func (s *Server) addressObjects(cfg Config) *allocate.Objects {
	if !slices.ContainsFunc(cfg.Resources, func(r objects.Resource) bool { return r.Names.GR() == networking.IPAddresses.Names.GR() }) {
		return nil
	}
	return &allocate.Objects{
		Reader: func() stage.Reader { return s.engine.Reader() },
		Client: func() client.Client { return s.ownClient(bootstrap.Agent) },
	}
}

// usage returns a backend of metrics.k8s.io.
func (s *Server) usage(of func(usage.Config) verbs.Backend) verbs.Backend {
	return of(usage.Config{
		Reader: func() stage.Reader { return s.engine.Reader() }, Clock: s.clock,
		Fetch: func(ctx context.Context, nodes []string, path string, query url.Values) []metrics.Report {
			return s.kubelets.Reports(ctx, nodes, path, query)
		},
	})
}

// newAuthn makes the issuer of ServiceAccount tokens and the authenticators, which read through the engine.
func (s *Server) newAuthn(cfg Config) (err error) {
	if s.issuer, err = tokens.New(cfg.PKI.TokenKey(), tokens.DefaultIssuer, s.engine.Reader(), cfg.Clock, s.labelSecret); err != nil {
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
		More:  []authenticator.Request{listen.Peer{}},
		Front: &authn.FrontProxy{Roots: cfg.PKI.FrontProxyPool, Names: []string{pki.FrontProxyClient}},
	})
	return nil
}

// labelSecret sets a label of a Secret, unless another Secret has its name by now.
func (s *Server) labelSecret(ctx context.Context, secret *corev1.Secret, label, value string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID, "labels": map[string]string{label: value}}})
	if err != nil {
		return err
	}
	target := client.In(client.Secrets, objects.Key{Namespace: secret.Namespace, Name: secret.Name})
	_, err = s.ownClient(bootstrap.Agent).Patch(ctx, target, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	return err
}

// newStages lists the stages of a request in the engine.
func (s *Server) newStages(cfg Config, r stage.Reader) stage.Stages {
	authorizers := authz.New(r, cfg.Features, s.bootstrap.RolesChanged)
	s.stages = admission.New(admission.Config{
		Reader: r, Source: cfg.Source, Clock: s.clock, Quota: s.updateQuota,
		Authorizers: authorizers, UID: s.random.UID, Find: s.rows.FindKind,
	})
	s.stages.Authorizers = authorizers
	var first []stage.Mutator
	if cfg.PodWarnings != nil {
		first = append(first, admission.FieldWarnings{Of: cfg.PodWarnings})
	}
	if cfg.ServiceWarnings != nil {
		first = append(first, admission.ServiceWarnings{Of: cfg.ServiceWarnings})
	}
	if len(cfg.WithoutController) > 0 {
		first = append(first, admission.NoController(cfg.WithoutController))
	}
	s.stages.Mutators = slices.Concat(first, s.stages.Mutators, []stage.Mutator{authz.NewEscalation(authorizers), terminating{s}})
	return s.stages
}

// updateQuota stores the status of a quota.
func (s *Server) updateQuota(ctx context.Context, q *corev1.ResourceQuota) error {
	quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	target := client.In(quotas, objects.Key{Namespace: q.Namespace, Name: q.Name}).Sub("status")
	_, err := s.ownClient(bootstrap.Agent).Update(ctx, target, q, metav1.UpdateOptions{})
	return err
}
